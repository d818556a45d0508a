"""openai-whisper on torch: the float32 tensors of MODEL_DIR in the native MLX layout."""

import sys

import numpy as np
import torch
import whisper
from safetensors.torch import load_file
from speak_lines import THREADS, fits_a_window, serve
from whisper.model import ModelDimensions, Whisper

torch.set_num_threads(THREADS)
tensors = load_file(f"{sys.argv[1]}/weights.safetensors")
state = {}
for key, tensor in tensors.items():
    name = key.replace("mlp1", "mlp.0").replace("mlp2", "mlp.2")
    is_conv = name.endswith(("conv1.weight", "conv2.weight"))
    state[name] = (tensor.permute(0, 2, 1) if is_conv else tensor).float().contiguous()
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


def decode_one(samples):
    """A clip of one window: silence is appended to the samples, as it is here."""
    mel = whisper.log_mel_spectrogram(whisper.pad_or_trim(samples), n_mels=n_mels)
    options = whisper.DecodingOptions(temperature=0.0, without_timestamps=True, fp16=False)
    result = whisper.decode(model, mel, options)
    return {"text": result.text.strip(), "language": result.language}


def work(request):
    samples = read(request["file"])
    with torch.no_grad():
        if fits_a_window(request):
            return decode_one(samples)
        result = model.transcribe(
            samples,
            temperature=0.0,
            condition_on_previous_text=False,
            fp16=False,
        )
    return {"text": result["text"].strip(), "language": result["language"]}


serve(work, "openai-whisper", "torch")
