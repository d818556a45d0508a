"""What the process reports of its backend, and that the BLAS it names does the products."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from models.backend import backend, blas_threads, device, gflops, mx, process


def test_reports_where_the_work_is_done():
    found = backend()
    assert found.device in {"metal", "cuda", "cpu"}
    assert found.threads >= 1
    assert (found.vector_math == "numpy") == (found.device == "cpu")
    assert bool(found.blas) == (found.device == "cpu")


def test_products_are_right_at_any_thread_count():
    a = np.random.default_rng(1).normal(size=(130, 70)).astype(np.float32)
    for count in (1, backend().threads):
        with blas_threads(count):
            got = np.array(mx.array(a) @ mx.array(a.T))
        np.testing.assert_allclose(got, a @ a.T, rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(backend().device != "cpu", reason="the GPU does the products here")
def test_numpys_own_blas_keeps_to_one_thread():
    """Its other threads would hold the cores that the products need."""
    threads = {found["prefix"]: found["num_threads"] for found in threadpool_info()}
    assert threads.get("libscipy_openblas", 1) == 1


@pytest.mark.skipif(process.BLAS.name != "mkl", reason="MKL is not installed")
def test_mkl_has_threads_of_its_own():
    """Sharing oneDNN's, which would then be more than there are cores, lets all of them sleep."""
    (mkl,) = (found for found in threadpool_info() if found["internal_api"] == "mkl")
    assert mkl["threading_layer"] == "intel"


def test_thread_counts_nest(monkeypatch):
    counts: list[int] = []
    monkeypatch.setattr(process.Blas, "set_threads", lambda self, count: counts.append(count))
    with blas_threads(1), blas_threads(3):
        pass
    assert counts == [1, 3, 1, backend().threads]


@pytest.mark.skipif(not process.BLAS.path, reason="no BLAS was loaded for MLX here")
def test_the_loaded_blas_is_the_one_mlx_uses():
    with blas_threads(1):
        assert gflops(256) > device.SLOW_GFLOPS


def test_a_slow_blas_is_one_warning(monkeypatch, caplog):
    monkeypatch.setattr(device, "gflops", lambda size: 4.0)
    with caplog.at_level(logging.WARNING):
        device._set_up_cpu()
    (record,) = caplog.records
    assert "mkl" in record.getMessage()
    assert "4 GFLOP/s" in record.getMessage()


def test_no_library_found_leaves_the_bundled_one(monkeypatch):
    monkeypatch.setattr(process.sys, "platform", "linux")
    monkeypatch.setattr(process, "_files", lambda *_: iter(["/nowhere/libmkl_rt.so.3"]))
    monkeypatch.setattr(process, "OPENBLAS_GLOBS", ())
    assert process.load_blas() == process.Blas(name="bundled")


def test_onednn_is_left_out_where_it_is_not_installed(monkeypatch):
    monkeypatch.setattr(process.sys, "platform", "linux")
    monkeypatch.setattr(process, "_files", lambda *_: iter(["/nowhere/libdnnl.so.3"]))
    assert process.load_onednn() is None


def test_core_type_is_named_by_instruction_set(monkeypatch):
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    flags = "avx2 fma avx512f avx512dq avx512bw avx512vl"
    monkeypatch.setattr(process.Path, "read_text", lambda *a, **k: flags)
    process._name_openblas_core()
    assert process.os.environ["OPENBLAS_CORETYPE"] == "SKYLAKEX"
    monkeypatch.delenv("OPENBLAS_CORETYPE")


@pytest.mark.parametrize(("text", "cpus"), [("150000 100000", 2), ("max 100000", None)])
def test_a_container_quota_bounds_the_threads(monkeypatch, text, cpus):
    monkeypatch.setattr(process.Path, "read_text", lambda *a, **k: text)
    assert process._cgroup_quota() == (cpus or process.sys.maxsize)
