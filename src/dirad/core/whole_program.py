"""Compile a kernel and everything it calls as one program.

Numba optimizes each function together with all functions it calls, and emits machine code for
each of them: a function called at depth five is optimized five times, and the machine code of
inner functions is never used. Here inner functions are only lowered to LLVM's intermediate
representation. The function that Python calls links them all, and is optimized and emitted once.
This takes a third of the time.

Numba also links compiled functions by symbol: if two of them contain a copy of the same inner
function, both call the copy that was loaded first. With fast-math the copies may round
differently, so that a result would depend on what the process has called before. Here every
program has private copies of its inner functions. A result depends on the program alone, whether
this process compiled it or loaded it from the disk cache.

Numba has no public option for this: the classes below override internal methods of its code
libraries. Importing this module fails where those methods are missing, and `compilation.kernel`
then compiles the usual way: slower, and without that guarantee.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from numba.core import types
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher

_REQUIRED_METHODS = (
    "finalize",
    "get_pointer_to_function",
    "_optimize_final_module",
    "_finalize_final_module",
)

if not (
    all(hasattr(JITCodeLibrary, name) for name in _REQUIRED_METHODS)
    and hasattr(JITCPUCodegen, "_library_class")
):
    raise ImportError(f"Numba {numba.__version__} has other code libraries")


class InnerLibrary(JITCodeLibrary):
    """The code of a function that only kernels call: linked, but neither optimized nor emitted."""

    @property
    def codegen(self) -> Any:
        """A code generator that sets no environments: they are set where code is emitted."""
        return _WithoutEnvironments

    def _optimize_final_module(self) -> None:
        """Leave optimization to the program."""

    def _finalize_final_module(self) -> None:
        """Emit no machine code."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is no machine code to point to."""
        self._ensure_finalized()
        return 0


class _WithoutEnvironments:
    """The part of a code generator that Numba uses after it emitted a function."""

    @staticmethod
    def set_env(env_name: str, env: object) -> None:
        """Do nothing."""


class ProgramLibrary(JITCodeLibrary):
    """The code of a function that Python calls, with private copies of all functions it calls."""

    def finalize(self) -> None:
        """Link, optimize and emit the program."""
        self._own = {f.name for f in self._final_module.functions if not f.is_declaration}
        super().finalize()

    def _optimize_final_module(self) -> None:
        """Optimize the program, and hide its inner functions from other programs."""
        super()._optimize_final_module()
        for function in self._final_module.functions:
            if not function.is_declaration and function.name not in self._own:
                function.linkage = "internal"

    def _finalize_final_module(self) -> None:
        """Emit machine code, and set the environments of the inner functions in it."""
        super()._finalize_final_module()
        codegen: Any = self.codegen
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                codegen.set_env(variable.name, environment)


class ProgramCompiler(Compiler):
    """Numba's compiler, for a function that Python calls."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile a function together with all functions it calls."""
        codegen = self.state.targetctx.codegen()
        self.state.library = ProgramLibrary(codegen, func.__qualname__)
        self.state.library.enable_object_caching()
        with _inner_libraries(codegen):
            return super().compile_extra(func)


@contextmanager
def _inner_libraries(codegen: Any) -> Iterator[None]:
    """Compile functions as inner ones. Numba holds its compiler lock meanwhile."""
    codegen._library_class = InnerLibrary
    try:
        yield
    finally:
        del codegen._library_class  # that of its class is found again


class Kernel(CPUDispatcher):
    """A compiled function. Kernels call it as a part of theirs, Python calls its program."""

    def __init__(self, py_func: Callable[..., Any], locals: Any, targetoptions: Any) -> None:
        inner = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(py_func, locals, {**targetoptions, **inner})
        self.program = CPUDispatcher(py_func, locals, targetoptions, pipeline_class=ProgramCompiler)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Type a call from a kernel: one version serves all literal arguments of a type."""
        return super().get_call_template([types.unliteral(a) for a in args], kws)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the program, which is compiled first where it is neither loaded nor cached."""
        return self.program(*args, **kwargs)

    def enable_caching(self) -> None:
        """Cache the program on disk."""
        self.program.enable_caching()
