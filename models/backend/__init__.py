"""The one door to MLX: prepares the process for it, then exports ``mx`` and what it runs on.

Every other module writes ``from models.backend import mx``. On a Linux CPU the import loads a fast
BLAS first, since libmlx binds to whatever ``cblas_sgemm`` it finds when it is itself loaded. The
package knows nothing of the models: they call ``mx`` and the functions of ``models.backend.ops``
and ``models.backend.parallel``, which are plain MLX on Metal and CUDA.
"""

from __future__ import annotations

from models.backend.process import Blas, give_back  # before the first import of mlx.core

# isort: split
import mlx.core as mx

from models.backend.device import Backend, backend, blas_threads, gflops, on_cpu

__all__ = ["Backend", "Blas", "backend", "blas_threads", "gflops", "give_back", "mx", "on_cpu"]
