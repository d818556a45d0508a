"""The shapes of JSON requests and answers. Request types are strict: a number is not a string."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class SpeechRequest(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    model: Annotated[str, Field(description="Carried and ignored: what is loaded speaks.")]
    input: Annotated[
        str, Field(description="The text to speak. What goes beyond 4,096 characters is cut.")
    ]
    voice: Annotated[
        str | None, Field(description="See `GET /v1/audio/voices`; an unknown one is the default.")
    ] = None
    response_format: Annotated[str | None, Field(description="`wav`, whatever the case.")] = None
    speed: Annotated[
        float | None,
        Field(description="1.0 when not positive; held to the range from 0.25 to 4."),
    ] = None
    callback_url: Annotated[
        str | None, Field(description="Told of the final state by a signed POST.")
    ] = None


class ErrorBody(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorEnvelope(BaseModel):
    """OpenAI's error object: the body of every answer that is not a success."""

    error: ErrorBody


class InputTokensDetails(BaseModel):
    cached_tokens: int


class Usage(BaseModel):
    """All counts are zero for Whisper."""

    type: Literal["tokens"]
    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_tokens_details: InputTokensDetails


class TranscriptEvent(BaseModel):
    """A transcription as llama-server answers it."""

    type: Literal["transcript.text.done"]
    text: str
    usage: Usage


class Translation(BaseModel):
    text: str
    language: Annotated[
        str | None, Field(description="Spoken in the recording; `verbose_json` only.")
    ] = None
    duration: Annotated[float | None, Field(description="Seconds; `verbose_json` only.")] = None


class Model(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: Annotated[int, Field(description="Unix time at which its worker started.")]
    owned_by: Annotated[str, Field(description="The family of the model.")]
    capabilities: Annotated[list[str], Field(description="`stt`, `tts`.")]
    multilingual: bool


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Model]


class VoiceList(BaseModel):
    object: Literal["list"] = "list"
    voices: list[str]
