from __future__ import annotations

import functools

import pytest

from tests.chat_checkpoints import GEMMA, PHI, write_checkpoint, write_tokenizer
from tests.chat_families import write_family


@pytest.fixture(scope="session")
def tokenizer_files():
    return write_tokenizer


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    pytest.importorskip("mlx_vlm", reason="needs the extra: pip install 'voxqueue[chat]'")

    def build(config):
        return write_checkpoint(tmp_path_factory.mktemp(config["model_type"]), config)

    return build


@pytest.fixture(scope="session")
def gemma_checkpoint(checkpoint):
    return checkpoint(GEMMA)


@pytest.fixture(scope="session")
def phi_checkpoint(checkpoint):
    return checkpoint(PHI)


@pytest.fixture(scope="session")
def family_checkpoint(tmp_path_factory):
    """By family; each is made once."""
    pytest.importorskip("mlx_vlm", reason="needs the extra: pip install 'voxqueue[chat]'")

    @functools.cache
    def build(family):
        return write_family(tmp_path_factory.mktemp(family), family)

    return build
