"""Rules of the source, read from its syntax: imports, papers' rooms, TVM, no unpickling, and sizes."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("compiler", "dataset", "models", "training", "inference")
"""A folder imports from itself and from those before it."""
TVM_FOLDERS = {"compiler", "dataset", "inference"}
PAPERS = ("bolt", "eto", "familyseer", "fasor")
"""Rooms of `inference` that hold what one paper proposes; registries name their classes."""
UNPICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}

SOURCES = {
    ".".join(["foretune", *path.relative_to(ROOT).with_suffix("").parts]): path
    for path in [*ROOT.glob("*.py"), *(file for layer in LAYERS for file in (ROOT / layer).rglob("*.py"))]
}


@cache
def nodes_of(source: str) -> list[ast.AST]:
    """All nodes of the syntax of a source, which several tests read."""
    return [*ast.walk(ast.parse(source))]


@pytest.fixture(scope="module", autouse=True)
def nodes_are_forgotten() -> Iterator[None]:
    """Frees the nodes after the tests that read them."""
    yield
    nodes_of.cache_clear()


def imported_modules(source: str, module: str) -> Iterator[str]:
    """Absolute names of all that `module` imports, also inside functions."""
    package = module.split(".")[:-1]
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # One dot is the module's own package, each further dot the one above.
            start = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*start, *([node.module] if node.module else [])])
            # `from .. import models` names a module after the word import.
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def layer_of(module: str) -> str | None:
    """The folder of a module of this package, None for the root's own files and for other packages."""
    parts = module.split(".")
    return parts[1] if parts[0] == "foretune" and len(parts) > 1 and parts[1] in LAYERS else None


def wrong_imports(source: str, module: str) -> list[str]:
    """Imports against the direction inference -> training -> models -> dataset -> compiler."""
    own = layer_of(module)
    if own is None:
        limit = 0  # what every layer may use rests on none of them
    else:
        limit = LAYERS.index(own) + 1
    targets = ((name, layer_of(name)) for name in imported_modules(source, module))
    return [name for name, layer in targets if layer is not None and LAYERS.index(layer) >= limit]


def import_cycles(sources: Mapping[str, str]) -> list[list[str]]:
    """Modules that import each other, for types alone and inside functions too; strings do not count.

    `sources` are the texts of modules by dotted name, `__init__` included.
    """
    graph = nx.DiGraph()
    for module, source in sources.items():
        for name in imported_modules(source, module):
            # `from a.b import c` imports the module a.b.c, else something of a.b.
            ways = (name, f"{name}.__init__", name.rpartition(".")[0], f"{name.rpartition('.')[0]}.__init__")
            target = next((way for way in ways if way in sources), None)
            if target is not None:
                graph.add_edge(module, target)
    components = [sorted(found) for found in nx.strongly_connected_components(graph)]
    return sorted(one for one in components if len(one) > 1 or graph.has_edge(one[0], one[0]))


def paper_imports(source: str, module: str) -> list[str]:
    """Imports of a paper's room from outside of it; entry points in the root of `inference` may have some."""
    parts = module.split(".")
    if parts[:2] == ["foretune", "inference"] and len(parts) == 3:
        return []
    own = parts[2] if parts[1] == "inference" else ""
    names = (name.split(".") for name in imported_modules(source, module))
    return [
        ".".join(name)
        for name in names
        if name[:2] == ["foretune", "inference"] and name[2:3] and name[2] in PAPERS and name[2] != own
    ]


def wrong_tvm_imports(source: str, module: str) -> list[str]:
    """Imports of TVM outside the folders that may know it."""
    if layer_of(module) in TVM_FOLDERS:
        return []
    names = imported_modules(source, module)
    return [name for name in names if name.split(".")[0] in ("tvm", "tvm_ffi")]


def called_name(function: ast.expr) -> str:
    """Dotted name of a called function, such as os.system; other expressions in it count as ""."""
    if isinstance(function, ast.Attribute):
        return f"{called_name(function.value)}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""


def unsafe_code(source: str, module: str) -> list[str]:
    """Ways to run code that a file or a user's text holds."""
    found = [name for name in imported_modules(source, module) if name.split(".")[0] in UNPICKLERS]
    for node in nodes_of(source):
        if not isinstance(node, ast.Call):
            continue
        called = called_name(node.func)
        options = {keyword.arg: keyword.value for keyword in node.keywords}
        loads = called == "torch.load" or called.endswith("load_from_checkpoint")
        if loads and not _is(options.get("weights_only"), True):
            found.append(f"{called} without weights_only=True")
        if "allow_pickle" in options and not _is(options["allow_pickle"], False):
            found.append(f"{called} with allow_pickle")
        if called.endswith("read_pickle"):
            found.append(called)
        if "shell" in options and not _is(options["shell"], False):
            found.append(f"{called} with shell")
        if called in ("os.system", "eval", "exec"):
            found.append(called)
    return found


def class_names(source: str) -> list[str]:
    """Names of all classes that the source defines, nested and underscored ones included."""
    return [node.name for node in nodes_of(source) if isinstance(node, ast.ClassDef)]


def repeated_classes(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Modules that define a class of the same name, by that name."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for module, source in sources.items():
        for name in class_names(source):
            modules[name].append(module)
    return {name: found for name, found in modules.items() if len(found) > 1}


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


@pytest.mark.parametrize("check", [wrong_imports, paper_imports, wrong_tvm_imports, unsafe_code])
def test_source_keeps_the_rules(check: Callable[[str, str], list[str]]) -> None:
    broken = {
        module: found
        for module, path in SOURCES.items()
        if (found := check(path.read_text(encoding="utf-8"), module))
    }
    assert broken == {}


MOST_FILES_IN_A_PACKAGE_ROOT = 8
MOST_FILES_IN_A_FOLDER = 20
MOST_LINES_OF_A_FILE = 350
MOST_LINES_OF_A_FUNCTION = 60

LONG_FUNCTIONS = {
    "compiler/templates/gpu/attention_kernel.py: attention",
}
"""Functions that are still longer. Remove an entry when its function is short enough; add none."""

FOLDERS = sorted(
    folder
    for layer in LAYERS
    for folder in [ROOT / layer, *(ROOT / layer).rglob("*")]
    if folder.is_dir() and "__pycache__" not in folder.parts and any(folder.glob("*"))
)


def purpose(init: str) -> str:
    """First sentence of the docstring of an `__init__.py`; "" if it has none, or one without a sentence."""
    sentence = (ast.get_docstring(ast.parse(init)) or "").split("\n\n")[0]
    return sentence if sentence.endswith(".") and len(sentence.split()) >= 2 else ""


def long_functions(source: str) -> list[str]:
    """Functions and methods of a module with too many lines, decorators not counted."""
    return [
        node.name
        for node in nodes_of(source)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= MOST_LINES_OF_A_FUNCTION
    ]


def file_count(folder: Path) -> int:
    """Files of a folder itself."""
    return sum(path.is_file() for path in folder.iterdir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_each_folder_says_what_it_is_for(folder: Path) -> None:
    assert purpose((folder / "__init__.py").read_text(encoding="utf-8"))


def test_a_missing_purpose_is_seen() -> None:
    assert purpose('"""Losses of a training.\n\nMore."""') == "Losses of a training."
    assert purpose("import os") == purpose('"""Losses."""') == purpose('"""losses of a training"""') == ""


def test_folders_are_small() -> None:
    most = dict.fromkeys(FOLDERS, MOST_FILES_IN_A_FOLDER)
    most |= {ROOT / layer: MOST_FILES_IN_A_PACKAGE_ROOT for layer in LAYERS}
    counts = {str(folder.relative_to(ROOT)): file_count(folder) for folder in FOLDERS}
    assert {name: count for name, count in counts.items() if count > most[ROOT / name]} == {}


def test_files_and_functions_are_short() -> None:
    sources = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in SOURCES.values()}
    lengths = {name: len(source.splitlines()) for name, source in sources.items()}
    assert {name for name, lines in lengths.items() if lines > MOST_LINES_OF_A_FILE} == set()
    found = {f"{name}: {function}" for name, source in sources.items() for function in long_functions(source)}
    assert found == LONG_FUNCTIONS


def test_long_functions_are_seen() -> None:
    lines = ["class A:", "    def short(self):", *["        x = 1"] * 59, "    def long(self):"]
    assert long_functions("\n".join([*lines, *["        x = 1"] * 60])) == ["long"]


def test_no_modules_import_each_other() -> None:
    assert import_cycles({name: path.read_text(encoding="utf-8") for name, path in SOURCES.items()}) == []


def test_no_two_classes_share_a_name() -> None:
    assert (
        repeated_classes({module: path.read_text(encoding="utf-8") for module, path in SOURCES.items()}) == {}
    )


def test_repeated_classes_are_seen() -> None:
    sources = {
        "foretune.one": "class _Reader: ...\nclass Row: ...",
        "foretune.other": "def f():\n    class _Reader: ...",
        "foretune.third": "class Table:\n    class Row: ...",
    }
    assert repeated_classes(sources) == {
        "_Reader": ["foretune.one", "foretune.other"],
        "Row": ["foretune.one", "foretune.third"],
    }


def test_all_layers_are_read() -> None:
    assert {layer_of(module) for module in SOURCES} == {None, *LAYERS}


@pytest.mark.parametrize(
    ("module", "source", "broken"),
    [
        ("foretune.models.transformer", "from ..dataset.features.table import FeatureTable", []),
        ("foretune.models.transformer", "from ..training.train import run", ["foretune.training.train.run"]),
        ("foretune.models.transformer", "from .. import training", ["foretune.training"]),
        ("foretune.models.transformer", "import foretune.inference", ["foretune.inference"]),
        ("foretune.models.transformer", "def f():\n    from ..training import x", ["foretune.training.x"]),
        ("foretune.models.__init__", "from .card import Card", []),
        ("foretune.models.__init__", "from ..inference import tune", ["foretune.inference.tune"]),
        ("foretune.dataset.features.table", "from ...models import losses", ["foretune.models.losses"]),
        ("foretune.dataset.features.table", "from ..models import x", []),
        ("foretune.compiler.task", "from ..dataset import store", ["foretune.dataset.store"]),
        ("foretune.inference.tune", "from ..training import a\nfrom ..models import b", []),
        ("foretune.errors", "from .dataset import store", ["foretune.dataset.store"]),
        ("foretune.training.train", "from ..errors import UserError\nimport torch", []),
    ],
)
def test_direction_of_imports_is_seen(module: str, source: str, broken: list[str]) -> None:
    assert wrong_imports(source, module) == broken


@pytest.mark.parametrize(
    ("first", "second", "is_cycle"),
    [
        ("from .b import x", "from .a import y", True),
        ("from .b import x", "import os", False),
        ("from . import b", "import foretune.models.a", True),
        ("from .b import x", "def f():\n    from .a import y", True),
        (
            "from .b import x",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import y",
            True,
        ),
        ("from .b import x", "HOMES = {'a': '.a:y'}", False),
        ("from .a import x", "", True),
        ("from .c import x", "from .c import y", False),
        ("from . import x", "", False),
        ("from .package import x", "", False),
        ("from .package import z", "", True),
    ],
)
def test_import_cycles_are_seen(first: str, second: str, is_cycle: bool) -> None:
    package = "from ..a import z" if first.endswith(" z") else ""
    names = ("a", "b", "c", "__init__", "package.__init__")
    texts = (first, second, "", "", package)
    found = import_cycles({f"foretune.models.{name}": text for name, text in zip(names, texts, strict=True)})
    assert bool(found) is is_cycle


@pytest.mark.parametrize(
    ("module", "source", "broken"),
    [
        (
            "foretune.inference.search.opening",
            "from ..eto.reuse_modes import x",
            ["foretune.inference.eto.reuse_modes.x"],
        ),
        (
            "foretune.inference.search.opening",
            "def f():\n    from .. import bolt",
            ["foretune.inference.bolt"],
        ),
        ("foretune.inference.search.opening", "ROOMS = '..eto.reuse_modes:x'\nfrom ..reuse import x", []),
        ("foretune.inference.eto.reuse_modes", "from .search import x", []),
        ("foretune.inference.eto.reuse_modes", "from ..fasor import x", ["foretune.inference.fasor.x"]),
        ("foretune.inference.advise", "from .bolt.advice import x", []),
        ("foretune.cli", "from .inference.bolt import x", ["foretune.inference.bolt.x"]),
    ],
)
def test_imports_of_papers_are_seen(module: str, source: str, broken: list[str]) -> None:
    assert paper_imports(source, module) == broken


@pytest.mark.parametrize(
    ("module", "source", "broken"),
    [
        ("foretune.dataset.task", "import tvm", []),
        ("foretune.inference.tune", "from tvm import relax", []),
        ("foretune.models.transformer", "import tvm", ["tvm"]),
        ("foretune.training.train", "from tvm.target import Target", ["tvm.target.Target"]),
        ("foretune.models.mlp", "def f():\n    import tvm_ffi", ["tvm_ffi"]),
        ("foretune.models.mlp", "import tvmlike", []),
    ],
)
def test_tvm_is_seen(module: str, source: str, broken: list[str]) -> None:
    assert wrong_tvm_imports(source, module) == broken


@pytest.mark.parametrize(
    ("source", "broken"),
    [
        ("import pickle", ["pickle"]),
        ("from cloudpickle import loads", ["cloudpickle.loads"]),
        ("torch.load(path)", ["torch.load without weights_only=True"]),
        ("torch.load(path, weights_only=False)", ["torch.load without weights_only=True"]),
        ("torch.load(path, weights_only=True)", []),
        ("Module.load_from_checkpoint(p)", ["Module.load_from_checkpoint without weights_only=True"]),
        ("np.load(path, allow_pickle=True)", ["np.load with allow_pickle"]),
        ("np.load(path, allow_pickle=flag)", ["np.load with allow_pickle"]),
        ("np.load(path, allow_pickle=False)", []),
        ("pd.read_pickle(path)", ["pd.read_pickle"]),
        ("subprocess.run(line, shell=True)", ["subprocess.run with shell"]),
        ("subprocess.run(words)", []),
        ("os.system(line)", ["os.system"]),
        ("kind()[0].load_from_checkpoint(p)", [".load_from_checkpoint without weights_only=True"]),
        ("eval(text)", ["eval"]),
        ("module.eval()", []),
    ],
)
def test_unsafe_code_is_seen(source: str, broken: list[str]) -> None:
    assert unsafe_code(source, "foretune.models.card") == broken
