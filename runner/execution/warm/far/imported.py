"""What a payload imports from its zip, imported once and handed out to every module that brings the very same zip.

In a process that serves one payload (`template`) the payload's own imports are done from a copy of its zip. There it is
noted what each of them imported, and then they are taken out of sys.modules. In a module's process the import system
works as ever; only where it would execute the source of such a module it gets the object that is there already. Names,
specs, loaders and the file names in tracebacks are those of the module's own zip, as all that mentions the copy is
renewed. What an import did besides making objects (`effects`), or what mentions the copy elsewhere, rules that out.
"""

from __future__ import annotations

import ast
import gc
import importlib
import io
import linecache
import re
import sys
import zipfile
import zipimport
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType

from .effects import depends, watched
from .stash import Checksum, Stash, fix_filename, source_in

_MODULE = re.compile(
    r"(?:ansible/(?:modules|legacy)|ansible_collections/[^/]+/[^/]+/plugins/modules)/(?:[^/]+/)*[^/]+\.py"
)
_LOADER = "ansible.module_utils._internal._ansiballz._loader"
"""What the wrapper of ansible-core 2.19 imports first; that of 2.18 imports `basic`."""
_BASIC = "ansible.module_utils.basic"
_PROFILES = "ansible.module_utils._internal._json._profiles."
_OF_A_FILE = ("__file__", "__path__", "__spec__", "__loader__", "__cached__")
_TOP = {"ansible", "ansible_collections"}
_READS_ITS_PLACE = frozenset(_OF_A_FILE)
_NAMES_OF_GENERATED = 8
_SIX = "ansible.module_utils.six"
_OF_A_FAILURE = frozenset({"format_exc"})
"""What may be called where an import has failed."""


class NotImportable(Exception):
    """The payload's imports can't be done once for all; the text tells why."""


@dataclass(kw_only=True)
class _Module:
    module: ModuleType
    code: CodeType
    checksum: Checksum
    imports: tuple[str, ...]
    """Which modules of the zip its execution imported, in their order."""
    moved: tuple[tuple[str, ModuleType], ...]
    """Parts of `six.moves` that it was the first to import: they are no files, and look like none."""
    stand_in: ModuleType | None
    """What it put in sys.modules in its own place."""
    finders: tuple[object, ...]
    """What it put at the end of sys.meta_path."""
    anew: bool
    """Whether it is executed in each process: a package that Ansible generates, which only finds its place."""


@dataclass(kw_only=True)
class Imported:
    """The modules."""

    modules: dict[str, _Module] = field(default_factory=dict)
    folder: str = ""
    """Where the copy of the zip was."""
    mentions: list[tuple[dict[str, object], str, str]] = field(default_factory=list)
    """Texts in modules that mention it, such as that of a failed import: where, under what name, and the text."""
    mains: list[tuple[dict[str, object], str]] = field(default_factory=list)
    """Where modules keep `__main__`, which is another one in each process."""
    _renewed: set[str] = field(default_factory=set)

    def serve_payloads(self) -> None:
        """From now on the import system gets these modules, in the process of a module."""
        named, coded = zipimport.zipimporter.get_filename, zipimport.zipimporter.get_code
        created, executed = zipimport.zipimporter.create_module, zipimport.zipimporter.exec_module

        def get_filename(importer: zipimport.zipimporter, fullname: str) -> str:
            module = self._known(importer, fullname)
            return module.code.co_filename if module else str(named(importer, fullname))

        def get_code(importer: zipimport.zipimporter, fullname: str) -> CodeType:
            module = self._known(importer, fullname)
            return module.code if module else coded(importer, fullname)

        def create_module(importer: zipimport.zipimporter, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
            module = self._known(importer, spec.name)
            return module.module if module else created(importer, spec)

        def exec_module(importer: zipimport.zipimporter, module: ModuleType) -> None:
            found = self._known(importer, module.__name__)
            as_ever = found is None or found.module is not module
            if as_ever or (found and found.anew):
                executed(importer, module)
            if found and not as_ever:
                _repeat(found)

        zipimport.zipimporter.get_filename = get_filename  # type: ignore[method-assign,assignment]
        zipimport.zipimporter.get_code = get_code  # type: ignore[method-assign,assignment]
        zipimport.zipimporter.create_module = create_module  # type: ignore[method-assign,assignment]
        zipimport.zipimporter.exec_module = exec_module  # type: ignore[method-assign,assignment]

    def _known(self, importer: zipimport.zipimporter, name: str) -> _Module | None:
        """Return the module where *importer*'s zip has the same source, with the file names of that zip."""
        module = self.modules.get(name)
        source = source_in(importer, name) if module else None
        if fix_filename is None or module is None or source is None or source.checksum != module.checksum:
            return None
        if not self._renewed:
            self._renew_mentions(str(Path(importer.archive).parent))
        if name not in self._renewed and fix_filename is not None:
            self._renewed.add(name)
            fix_filename(module.code, source.path)
        return module

    def _renew_mentions(self, folder: str) -> None:
        for namespace, name, text in self.mentions:
            namespace[name] = text.replace(self.folder, folder)
        for namespace, name in self.mains:
            namespace[name] = sys.modules["__main__"]


def _repeat(found: _Module) -> None:
    """Do what the execution of the module did to the import system."""
    for name in found.imports:
        if name not in sys.modules:
            importlib.import_module(name)
    for name, moved in found.moved:
        sys.modules.setdefault(name, moved)
    if found.stand_in is not None:
        sys.modules[found.module.__name__] = found.stand_in
    sys.meta_path.extend(found.finders)  # type: ignore[arg-type]
    if found.module.__name__ == _SIX:  # it does so with its own, to tell of modules that are not files
        found.module.__path__ = found.module.__spec__.submodule_search_locations = []  # type: ignore[union-attr]


def import_payload(archive: bytes, *, folder: str, stash: Stash) -> Imported:
    """Import what the module in *archive* imports at first, in a process that does nothing else.

    *folder* is empty, for the copy of the zip; no other text in this process may have its name in it.

    Raises:
        NotImportable: its modules can't be handed out to other processes.
    """
    if fix_filename is None:
        raise NotImportable("this Python has no way to rename the file of code")
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        sources = {name: file.read(name) for name in file.namelist() if name.endswith(".py")}
    if (main := module_in(sources)) is None:
        raise NotImportable("it has not one module")
    path = Path(folder) / "ansible_x_payload.zip"
    path.write_bytes(archive)
    imported = _import_from(str(path), sources=sources, main=main)
    del path
    stash.forget_taken()
    _look_for(imported)
    return imported


def _import_from(path: str, *, sources: dict[str, bytes], main: str) -> Imported:
    imported = Imported(folder=str(Path(path).parent))
    original = zipimport.zipimporter.exec_module
    stack: list[list[str]] = [[]]
    accounted: list[object] = []
    moves: dict[str, ModuleType] = {}

    def exec_module(importer: zipimport.zipimporter, module: ModuleType) -> None:
        source = source_in(importer, module.__name__)
        inner: list[str] = []
        stack.append(inner)
        finders, before = list(sys.meta_path), set(sys.modules)
        try:
            original(importer, module)
        except BaseException:
            stack[-2].extend(inner)
            raise
        finally:
            stack.pop()
        stack[-1].append(module.__name__)
        if source is None:
            raise NotImportable(f"{module.__name__} has no source")
        code = importer.get_code(module.__name__)
        anew = "extend_path" in code.co_names and len(code.co_names) <= _NAMES_OF_GENERATED
        added = tuple(finder for finder in sys.meta_path if finder not in finders and finder not in accounted)
        accounted.extend(added)
        moved = tuple(
            (name, there)
            for name, there in sys.modules.items()
            if name.startswith(f"{_SIX}.") and name not in before and name not in moves
        )
        moves.update(dict(moved))
        if not anew and module.__name__ != _SIX and (reason := depends(code)):
            raise NotImportable(f"{module.__name__} takes {reason} at its import")
        imported.modules[module.__name__] = _Module(
            module=module,
            code=code,
            checksum=source.checksum,
            imports=tuple(inner),
            finders=added,
            moved=moved,
            anew=anew,
            stand_in=None,
        )

    before = list(sys.path)
    zipimport.zipimporter.exec_module = exec_module  # type: ignore[method-assign,assignment]
    try:
        sys.path.insert(0, path)
        with watched(imported.folder) as seen:
            _do_imports(sources, main=main)
    finally:
        zipimport.zipimporter.exec_module = original  # type: ignore[method-assign]
        sys.path[:] = before
    if reason := seen.why_not():
        raise NotImportable(reason)
    _take_out(imported, path=path)
    return imported


def _do_imports(sources: dict[str, bytes], *, main: str) -> None:
    """Do what the wrapper imports, then what *main* does when it begins."""
    first = _LOADER if f"{_LOADER.replace('.', '/')}.py" in sources else _BASIC
    importlib.import_module(first)
    package = main.removesuffix(".py").replace("/", ".").rpartition(".")[0]
    importlib.import_module(package)
    namespace = {"__name__": "__main__", "__package__": package}
    for node in _first_imports(ast.parse(sources[main]), package=package):
        code = compile(ast.Module(body=[node], type_ignores=[]), "payload", "exec", dont_inherit=True)
        exec(code, namespace)  # noqa: S102 - a statement of the module's, that it would execute as well
    for name in sorted(sources):
        full = name.removesuffix(".py").replace("/", ".")
        if full.startswith(_PROFILES) and not full.endswith("__init__"):
            importlib.import_module(full)  # the module's exit looks it up by name


def _first_imports(tree: ast.Module, *, package: str) -> Iterator[ast.stmt]:
    """Yield the unconditional imports from the zip, as far as nothing before them can make them different."""
    for node in tree.body:
        if not _is_harmless(node):
            return
        if isinstance(node, ast.Import):
            names = [alias for alias in node.names if alias.name.partition(".")[0] in _TOP]
            if names:
                yield ast.copy_location(ast.Import(names=names), node)
        elif isinstance(node, ast.ImportFrom):
            top = package if node.level else node.module or ""
            if top.partition(".")[0] in _TOP:
                yield node


def _is_harmless(node: ast.AST) -> bool:
    """Tell whether a statement only imports and names things: it calls nothing, and changes no object."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():  # its body isn't executed
            return not node.decorator_list and _is_harmless(node.args)
        case ast.Call():
            return isinstance(node.func, ast.Attribute) and node.func.attr in _OF_A_FAILURE
        case ast.Attribute() | ast.Subscript():
            return isinstance(node.ctx, ast.Load) and all(map(_is_harmless, ast.iter_child_nodes(node)))
        case ast.ClassDef():
            return not node.decorator_list and not node.keywords and all(map(_is_harmless, node.body))
        case ast.Delete() | ast.Raise() | ast.With() | ast.While() | ast.AugAssign():
            return False
    return all(map(_is_harmless, ast.iter_child_nodes(node)))


def module_in(sources: Collection[str]) -> str | None:
    """Return the file of the module among those of a payload's zip; None where there is not one."""
    modules = [name for name in sources if _MODULE.fullmatch(name) and not name.endswith("/__init__.py")]
    return modules[0] if len(modules) == 1 else None


def _take_out(imported: Imported, *, path: str) -> None:
    """Leave nothing of the modules in sys, and nothing of the copy's place in them."""
    for name, found in imported.modules.items():
        parent, _, child = name.rpartition(".")
        if parent in imported.modules and imported.modules[parent].module.__dict__.get(child) is found.module:
            del imported.modules[parent].module.__dict__[child]  # or it would not be imported: the package has it
        there = sys.modules.pop(name, None)
        if there is not found.module:
            found.stand_in = there
        _forget_place(found.module.__dict__, imported=imported)
    for name in [name for name in sys.modules if name.startswith(f"{_SIX}.")]:
        del sys.modules[name]
    for finder in [finder for found in imported.modules.values() for finder in found.finders]:
        sys.meta_path.remove(finder)  # type: ignore[arg-type]
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(path):
            raise NotImportable(f"{name} was imported and is not known")
    for entry in [entry for entry in sys.path_importer_cache if entry.startswith(path)]:
        del sys.path_importer_cache[entry]
    zipimport._zip_directory_cache.pop(path, None)  # type: ignore[attr-defined]  # noqa: SLF001 - as importlib does
    linecache.clearcache()


def _forget_place(namespace: dict[str, object], *, imported: Imported) -> None:
    for attribute in namespace.keys() & _READS_ITS_PLACE:
        namespace[attribute] = None  # the import system sets what is None
    for attribute, value in namespace.items():
        if isinstance(value, str) and imported.folder in value:
            imported.mentions.append((namespace, attribute, value))
        elif value is sys.modules["__main__"]:
            imported.mains.append((namespace, attribute))


def _look_for(imported: Imported) -> None:
    """Make sure that no object but code mentions the copy's place; what was there before is frozen, see `forking`."""
    gc.collect()
    known = {(id(namespace), hash(text)) for namespace, _, text in imported.mentions}
    allowed = {id(mention) for mention in imported.mentions} | {id(imported), id(imported.__dict__)}
    for holder in gc.get_objects():
        if id(holder) in allowed:
            continue
        for text in _texts_of(holder):
            if imported.folder in text and (id(holder), hash(text)) not in known:
                # what it holds may be a run's, and nobody's business
                raise NotImportable(f"a {type(holder).__name__} mentions the folder of the zip")


def _texts_of(holder: object) -> Sequence[str]:
    if type(holder).__name__ == "frame":
        return ()
    return [part for part in gc.get_referents(holder) if type(part) is str]
