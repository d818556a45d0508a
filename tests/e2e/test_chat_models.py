"""Chat models that hear, on tiny networks of the true shape, through the whole service."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from app.clock import now
from app.db import queries
from app.db.engine import Database
from app.db.records import Worker
from tests import places
from tests.chat_calls import ROUTE, curl, heard, post, recording, refused, streamed
from tests.harness import Service, calls, eventually, fake_model

pytest.importorskip("mlx_vlm", reason="needs the extra: pip install 'voxqueue[chat]'")

from tests.chat_checkpoints import GEMMA, PHI, write_checkpoint

REASONS = [
    "queue_full",
    "memory_limit",
    "worker_unavailable",
    "overflow",
    "waveform",
    "feature",
    "feature_panic",
    "context_limit",
]


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What takes Whisper's place beside the chat model."""
    return fake_model(tmp_path_factory.mktemp("model") / "fake")


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory, whisper: Path) -> Iterator[Service]:
    """A chat model in front of another that also translates."""
    checkpoint = write_checkpoint(tmp_path_factory.mktemp("gemma"), GEMMA)
    models = ("--chat-model", str(checkpoint), "--stt-model", str(whisper), "--tts-model", "")
    service = Service(tmp_path_factory.mktemp("data"), *models)
    yield service
    assert service.stop() == 0


@pytest.fixture(scope="module")
def phi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A chat model alone."""
    checkpoint = write_checkpoint(tmp_path_factory.mktemp("phi"), PHI)
    models = ("--stt-model", str(checkpoint), "--tts-model", "")
    service = Service(tmp_path_factory.mktemp("data"), *models)
    yield service
    assert service.stop() == 0


def test_deltas_arrive_one_by_one_in_order(gemma: Service) -> None:
    deltas, done = streamed(gemma, recording(), max_tokens="60")
    assert len(deltas) > 10
    assert done == heard(gemma, recording(), max_tokens="60")
    assert "".join(deltas) == done["text"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_writes_each_delta_while_the_job_runs(gemma: Service, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(recording())
    text = heard(gemma, recording(), max_tokens="60")["text"]
    said = ""
    with curl(gemma, tmp_path / "a.wav", stream="true", max_tokens="30000") as deltas:
        for delta in islice(deltas, 20):
            said += delta
            assert len(delta) == 1  # a letter a token
        (job,) = gemma.client.get("/v1/jobs", params={"status": "running"}).json()["data"]
    assert text.startswith(said)
    url = job["links"]["self"]
    eventually(lambda: gemma.client.get(url).json()["status"] == "cancelled")


def test_a_delta_arrives_while_the_rest_is_made_and_a_hang_up_ends_it(gemma: Service) -> None:
    files, fields = {"file": ("a.wav", recording())}, {"stream": "true", "max_tokens": "30000"}
    with gemma.client.stream("POST", ROUTE, files=files, data=fields) as answer:
        first = next(answer.iter_lines())
        assert "transcript.text.delta" in first
        (job,) = gemma.client.get("/v1/jobs", params={"status": "running"}).json()["data"]
    url = job["links"]["self"]
    eventually(lambda: gemma.client.get(url).json()["status"] == "cancelled")


def test_usage_is_real(gemma: Service) -> None:
    usage = heard(gemma, recording(), max_tokens="7")["usage"]
    prompt = len("user\nTranscribe audio to text\n\n\n\n\nmodel\n") + 4  # and its four marks
    assert usage == {
        "type": "tokens",
        "input_tokens": prompt + 190,  # 188 soft tokens between two marks
        "output_tokens": 7,
        "total_tokens": prompt + 190 + 7,
        "input_tokens_details": {"cached_tokens": 0},
    }


def test_prompt_and_language_reach_the_model(gemma: Service) -> None:
    plain = heard(gemma, recording(), max_tokens="1")["usage"]["input_tokens"]
    told = heard(gemma, recording(), max_tokens="1", prompt=" Listen ", language="de")
    longer = len("Listen (language: de)") - len("Transcribe audio to text")
    assert told["usage"]["input_tokens"] == plain + longer


def test_temperature_reaches_the_model(gemma: Service) -> None:
    same = {heard(gemma, recording(), max_tokens="12")["text"] for _ in range(3)}
    hot = {heard(gemma, recording(), max_tokens="12", temperature="5")["text"] for _ in range(3)}
    assert (len(same), len(hot) > 1) == (1, True)


def test_a_prompt_with_a_private_marker_is_refused(gemma: Service) -> None:
    message = refused(gemma, recording(), prompt="<|mlxcel_ordered_audio_1|>")
    assert message == "message text contains a reserved ordered-media sentinel"


@pytest.mark.parametrize(
    ("audio", "message"),
    [
        (
            recording(subtype="PCM_24"),
            "audio clip 0 is corrupt: unsupported WAV format 1/24-bit",
        ),
        (recording()[:-100], "audio clip 0 is corrupt: declared WAV chunk exceeds payload"),
        (
            recording(31),
            "audio source duration samples limit exceeded: actual 496000, maximum 480000",
        ),
    ],
)
@pytest.mark.parametrize("stream", ["", "true"])
def test_the_strict_boundary_speaks_for_itself(
    gemma: Service, audio: bytes, message: str, stream: str
) -> None:
    assert refused(gemma, audio, stream=stream) == message


@pytest.mark.parametrize("container", ["FLAC", "MP3"])
def test_compressed_recordings_are_heard(gemma: Service, container: str) -> None:
    usage = heard(gemma, recording(container=container), max_tokens="3")["usage"]
    assert usage["output_tokens"] == 3


def test_translations_go_to_the_model_that_translates(gemma: Service, whisper: Path) -> None:
    before = len(calls(whisper))
    answer = post(gemma, recording(), "/v1/audio/translations")
    assert answer.json()["text"].startswith("translate:")
    heard(gemma, recording(), max_tokens="1")
    assert len(calls(whisper)) == before + 1


def test_a_bulk_recording_is_cut_into_windows(gemma: Service) -> None:
    fields = {"kind": "transcription", "max_tokens": "2"}
    job = post(gemma, recording(65), "/v1/jobs", **fields).json()["links"]
    eventually(lambda: gemma.client.get(job["self"]).json()["status"] == "succeeded")
    usage = gemma.client.get(job["result"]).json()["usage"]
    assert usage["output_tokens"] == 3 * 2


def test_translations_without_such_a_model_are_501(phi: Service) -> None:
    answer = post(phi, recording(), "/v1/audio/translations")
    assert answer.status_code == 501
    assert answer.json()["error"]["type"] == "not_implemented"
    assert answer.json()["error"]["message"] == "audio model kind not loaded: stt"


def test_phi_hears_by_its_own_numbers(phi: Service) -> None:
    one = heard(phi, recording(), max_tokens="5")["usage"]
    assert one["output_tokens"] == 5
    longer = heard(phi, recording(31), max_tokens="5")["usage"]  # 30 minutes are allowed
    assert longer["input_tokens"] - one["input_tokens"] == 388 - 13
    relabelled = heard(phi, recording(1.0, 22_050), max_tokens="5")["usage"]
    assert relabelled["input_tokens"] - one["input_tokens"] == 17 - 13  # 22050 samples "at 16 kHz"
    assert "family minimum" in refused(phi, recording(1.0, 4_000))


def numbers(service: Service) -> dict[str, float]:
    """As of now: with a heartbeat of the worker since."""
    database, moment = Database(places.database_url(service.data)), now()

    def beaten() -> list[Worker]:
        with database.reading() as connection:
            return queries.live_workers(connection, moment)

    eventually(beaten)
    database.close()
    text = service.client.get("/metrics").text
    lines = [line for line in text.splitlines() if line.startswith("mlxcel_audio_")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_5_4_the_workers_numbers_are_on_metrics(phi: Service) -> None:
    rejected = [f'mlxcel_audio_preprocess_rejections_total{{reason="{name}"}}' for name in REASONS]
    before = numbers(phi)
    assert [name for name in before if "rejections" in name] == rejected
    heard(phi, recording(), max_tokens="1")
    refused(phi, recording(subtype="PCM_24"))
    after = numbers(phi)
    change = {name: after[name] - before[name] for name in after}
    assert change["mlxcel_audio_source_seconds_total"] == pytest.approx(1)
    assert change["mlxcel_audio_source_samples_total"] == 16_000
    assert change["mlxcel_audio_normalized_samples_total"] == 16_000
    assert change["mlxcel_audio_feature_frames_total"] == 98
    assert change["mlxcel_audio_effective_tokens_total"] == 13
    assert change["mlxcel_audio_effective_prefill_tokens_total"] > 13
    assert change["mlxcel_audio_preprocess_latency_seconds_total"] > 0
    assert [change[name] for name in rejected] == [0, 0, 0, 0, 1, 0, 0, 0]
    assert after["mlxcel_audio_preprocess_queued_bytes"] == 0
    assert after["mlxcel_audio_preprocess_inflight_host_bytes"] == 0


def test_5_4_a_counter_does_not_fall_with_its_worker(phi: Service) -> None:
    name = "mlxcel_audio_source_samples_total"
    heard(phi, recording(2.0), max_tokens="1")
    before = numbers(phi)[name]
    phi.kill("worker")
    heard(phi, recording(), max_tokens="1")
    assert numbers(phi)[name] == before + 16_000
