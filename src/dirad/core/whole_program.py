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

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
from numba.core import types
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher
from numba.core.runtime.context import NRTContext

from dirad.core.compilation import RECORDS_MADE_BY_PYTHON

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


_WRAPPER_PREFIX = "_ZN7cpython"  # of the function that takes Python's arguments apart


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
        with (
            _inner_libraries(codegen),
            _few_reference_counts(),
            _without_garbage_collection(),
        ):
            return super().compile_extra(func)


@contextmanager
def _inner_libraries(codegen: Any) -> Iterator[None]:
    """Compile functions as inner ones. Numba holds its compiler lock meanwhile."""
    codegen._library_class = InnerLibrary
    try:
        yield
    finally:
        del codegen._library_class  # that of its class is found again


@contextmanager
def _few_reference_counts() -> Iterator[None]:
    """Compile without reference counts where they are not needed.

    Numba counts references to every array of a record whenever a function takes the record or one
    of its parts. These instructions would be half of a program; the optimizer removes most of
    them, which takes long. Arrays of a record that only Python makes (`borrowed_by_kernels`) live
    as long as the call of the program, whose wrapper holds a reference.
    """
    before = NRTContext.incref, NRTContext.decref
    NRTContext.incref, NRTContext.decref = map(_where_needed, before)
    try:
        yield
    finally:
        NRTContext.incref, NRTContext.decref = before


def _where_needed(count: Callable[..., None]) -> Callable[..., None]:
    def count_where_needed(self: Any, builder: Any, typ: Any, value: Any) -> None:
        if not self._context.data_model_manager[typ].contains_nrt_meminfo():
            return  # Numba would extract every number of the record, and do nothing with it
        record = getattr(typ, "instance_class", None)
        in_wrapper = builder.function.name.startswith(_WRAPPER_PREFIX)
        if record in RECORDS_MADE_BY_PYTHON and not in_wrapper:
            return
        count(self, builder, typ, value)

    return count_where_needed


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Pause the search for reference cycles, which takes a fifth of the time of compilation.

    The compiler makes millions of small objects that live until it is done.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Kernel(CPUDispatcher):
    """A compiled function. Kernels call it as a part of theirs, Python calls its program."""

    def __init__(self, py_func: Callable[..., Any], locals: Any, targetoptions: Any) -> None:
        inner = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(py_func, locals, {**targetoptions, **inner})
        outer = {**targetoptions, "no_cfunc_wrapper": True}
        self.program = CPUDispatcher(py_func, locals, outer, pipeline_class=ProgramCompiler)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Type a call from a kernel: one version serves all literal arguments of a type."""
        return super().get_call_template([types.unliteral(a) for a in args], kws)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the program, which is compiled first where it is neither loaded nor cached."""
        return self.program(*args, **kwargs)

    def enable_caching(self) -> None:
        """Cache the program on disk."""
        self.program.enable_caching()

    def is_cached(self, *args: Any) -> bool:
        """Is the program for such arguments loaded or in the disk cache?"""
        program: Any = self.program
        signature = tuple(map(numba.typeof, args))
        if signature in program.overloads:
            return True
        if not hasattr(program._cache, "_cache_file"):
            return False  # there is no folder
        key = program._cache._index_key(signature, program.targetctx.codegen())
        return key in program._cache._cache_file._load_index()
