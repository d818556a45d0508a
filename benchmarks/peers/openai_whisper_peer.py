"""openai-whisper on torch: the float32 tensors of MODEL_FILE (safetensors, MLX names)."""

import sys

import numpy as np
import torch
from safetensors.torch import load_file
from speak_lines import serve
from whisper.model import ModelDimensions, Whisper

torch.set_num_threads(2)
tensors = load_file(sys.argv[1])
state = {}
for key, value in tensors.items():
    name = key.replace("mlp1", "mlp.0").replace("mlp2", "mlp.2")
    if name.endswith(("conv1.weight", "conv2.weight")):
        value = value.permute(0, 2, 1)
    state[name] = value.float().contiguous()
audio_state, n_mels = state["encoder.conv1.weight"].shape[:2]
vocab, text_state = state["decoder.token_embedding.weight"].shape
layers = {
    side: 1 + max(int(k.split(".")[2]) for k in state if k.startswith(f"{side}.blocks"))
    for side in ("encoder", "decoder")
}
dims = ModelDimensions(
    n_mels=n_mels,
    n_audio_ctx=1500,
    n_audio_state=audio_state,
    n_audio_head=audio_state // 64,
    n_audio_layer=layers["encoder"],
    n_vocab=vocab,
    n_text_ctx=state["decoder.positional_embedding"].shape[0],
    n_text_state=text_state,
    n_text_head=text_state // 64,
    n_text_layer=layers["decoder"],
)
model = Whisper(dims)
missing, unexpected = model.load_state_dict(state, strict=False)
assert not unexpected, unexpected
assert all("positional_embedding" in key or "mask" in key for key in missing), missing
model.eval()


def read(path):
    import soundfile

    samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    mono = samples.mean(axis=1)
    if rate != 16_000:
        import soxr

        mono = soxr.resample(mono, rate, 16_000)
    return np.ascontiguousarray(mono, dtype=np.float32)


def work(request):
    with torch.no_grad():
        result = model.transcribe(
            read(request["file"]),
            temperature=0.0,
            condition_on_previous_text=False,
            without_timestamps=True,
            fp16=False,
        )
    return {"text": result["text"].strip(), "language": result["language"]}


serve(work)
