"""The rules of the source, read from its syntax: direction of imports, where TVM is known, no unpickling."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("compiler", "dataset", "models", "training", "inference")
"""A folder imports from itself and from those before it."""
TVM_FOLDERS = {"compiler", "dataset", "inference"}
UNPICKLERS = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}

SOURCES = {
    ".".join(["foretune", *path.relative_to(ROOT).with_suffix("").parts]): path
    for path in [*ROOT.glob("*.py"), *(file for layer in LAYERS for file in (ROOT / layer).rglob("*.py"))]
}


def imported_modules(tree: ast.AST, module: str) -> Iterator[str]:
    """Absolute names of all that `module` imports, also inside functions."""
    package = module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # One dot is the module's own package, each further dot the one above.
            start = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*start, *([node.module] if node.module else [])])
            # `from .. import models` names a module after the word import.
            yield from (f"{source}.{alias.name}" for alias in node.names)


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
    targets = ((name, layer_of(name)) for name in imported_modules(ast.parse(source), module))
    return [name for name, layer in targets if layer is not None and LAYERS.index(layer) >= limit]


def wrong_tvm_imports(source: str, module: str) -> list[str]:
    """Imports of TVM outside the folders that may know it."""
    if layer_of(module) in TVM_FOLDERS:
        return []
    names = imported_modules(ast.parse(source), module)
    return [name for name in names if name.split(".")[0] in ("tvm", "tvm_ffi")]


def unsafe_code(source: str, module: str) -> list[str]:
    """Ways to run code that a file or a user's text holds."""
    tree = ast.parse(source)
    found = [name for name in imported_modules(tree, module) if name.split(".")[0] in UNPICKLERS]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
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
    return [node.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]


def repeated_classes(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Modules that define a class of the same name, by that name."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for module, source in sources.items():
        for name in class_names(source):
            modules[name].append(module)
    return {name: found for name, found in modules.items() if len(found) > 1}


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


@pytest.mark.parametrize("check", [wrong_imports, wrong_tvm_imports, unsafe_code])
def test_source_keeps_the_rules(check: Callable[[str, str], list[str]]) -> None:
    broken = {
        module: found
        for module, path in SOURCES.items()
        if (found := check(path.read_text(encoding="utf-8"), module))
    }
    assert broken == {}


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
        ("eval(text)", ["eval"]),
        ("module.eval()", []),
    ],
)
def test_unsafe_code_is_seen(source: str, broken: list[str]) -> None:
    assert unsafe_code(source, "foretune.models.card") == broken
