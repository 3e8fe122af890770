"""`FamilyCostModel` on its own: families, targets and files."""

from __future__ import annotations

import numpy as np
import pytest
from foretune.compiler.operators import Dense, Softmax, to_task
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from foretune.inference import FamilyCostModel, FamilyTaskScheduler
from foretune.inference.familyseer import family_cost_model, task_scheduler
from foretune.inference.familyseer.family_cost_model import FamilyModelFileError
from tvm.ir.utils import derived_object
from tvm.s_tir import meta_schedule as ms

TARGETS = [parse_target({"kind": "llvm", "mcpu": f"x86-64-v{level}", "num-cores": 2}) for level in (3, 4)]
DENSE = to_task(Dense(rows=8, in_features=16, out_features=32))
SOFTMAX = to_task(Softmax.examples()[0])


@derived_object
class Counter(ms.cost_model.PyCostModel):
    """Scores every program by the number of programs that it was taught."""

    def __init__(self):
        super().__init__()
        self.taught = 0

    def predict(self, context, candidates):
        return np.full(len(candidates), float(self.taught))

    def update(self, context, candidates, results):
        self.taught += len(candidates)

    def save(self, path):
        np.save(path, self.taught)

    def load(self, path):
        self.taught = int(np.load(path))


def programs_of(task, target, count):
    context = make_tune_context(task.mod, target, seed=1, strategy="replay-trace", name=task.name)
    context.pre_tuning(count, count, context.generate_design_space(), ms.database.MemoryDatabase(), None)
    return context, list(context.generate_measure_candidates())


def teach(model, task, target, count):
    context, programs = programs_of(task, target, count)
    results = [ms.runner.RunnerResult([1e-3 / (1 + number)], None) for number in range(count)]
    model.update(context, programs, results)
    return context, programs


def test_each_family_and_each_target_has_its_own_model():
    model = FamilyCostModel(make=Counter)
    dense = [teach(model, DENSE, target, count) for target, count in zip(TARGETS, (2, 3), strict=True)]
    softmax = teach(model, SOFTMAX, TARGETS[0], 1)
    found = [model.predict(*taught)[0] for taught in (*dense, softmax)]
    assert found == [2.0, 3.0, 1.0]
    assert [key.family for key in model.models] == ["dense", "dense", "softmax"]
    assert model._inst.predict(dense[0][0], []).shape == (0,)


def test_what_was_learned_is_saved_and_loaded(tmp_path):
    model, path = FamilyCostModel(make=Counter), str(tmp_path / "families")
    dense, softmax = teach(model, DENSE, TARGETS[0], 2), teach(model, SOFTMAX, TARGETS[1], 1)
    model.predict(*programs_of(SOFTMAX, TARGETS[0], 1))  # creates a model that learns nothing
    model.save(path)
    model.save(path)  # replaces the file
    loaded = FamilyCostModel(make=Counter)
    teach(loaded, DENSE, TARGETS[1], 1)
    loaded.load(path)
    assert len(loaded.models) == 2
    assert [loaded.predict(*taught)[0] for taught in (dense, softmax)] == [2.0, 1.0]
    with pytest.raises(FamilyModelFileError, match="grouped by core_operator, those of this model by one"):
        FamilyCostModel("one", make=Counter)._inst.load(path)


def test_stock_trees_predict_the_same_after_loading(tmp_path):
    pytest.importorskip("xgboost")
    model, path = FamilyCostModel(), str(tmp_path / "families")
    context, programs = teach(model, DENSE, TARGETS[0], 40)
    model.predict(*programs_of(SOFTMAX, TARGETS[0], 1))  # trees that are not fitted
    model.save(path)
    loaded = FamilyCostModel()
    loaded.load(path)
    np.testing.assert_array_equal(loaded.predict(context, programs), model.predict(context, programs))
    assert [trees.data_size for trees in loaded.models.values()] == [40]


def test_another_file_is_an_error(tmp_path):
    path = tmp_path / "text"
    path.write_text("no archive")
    with pytest.raises(FamilyModelFileError, match=r"text: not a file of FamilyCostModel\.save"):
        FamilyCostModel()._inst.load(path)


@pytest.mark.parametrize(
    ("module", "make"), [(family_cost_model, FamilyCostModel), (task_scheduler, FamilyTaskScheduler)]
)
def test_intrinsics_are_loaded_before_the_first_context(module, make, monkeypatch):
    """TVM's own import of them takes half a minute."""
    loaded = []
    monkeypatch.setattr(module, "load_tensor_intrinsics", lambda: loaded.append(True))
    make()
    assert loaded == [True]
