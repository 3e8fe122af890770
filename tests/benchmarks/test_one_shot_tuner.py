"""Samplers by the networks that they tune: the order of the work."""

from __future__ import annotations

from benchmarks import one_shot_tuner as samplers
from benchmarks.kept_runs import KeptRuns
from benchmarks.networks import contest
from benchmarks.one_shot_tuner import arguments_of, measured


def test_datasets_grow_in_turns_and_each_round_begins_with_the_next():
    turns = list(samplers.growth(45))
    assert [size for _, size in turns] == [20] * 6 + [40] * 6 + [45] * 6
    first, second, third = (turns[at][0] for at in (0, 6, 12))
    assert [first, second, third] == list(samplers.SAMPLERS)[:3]
    assert {name for name, _ in turns[6:12]} == set(samplers.SAMPLERS)


def test_the_six_pairs_are_those_of_the_experiment():
    assert samplers.SAMPLERS["pgs_ebs"] == (
        "task_sampling.sampler=prior",
        "program_sampling.sampler=evolutionary",
    )
    assert set(samplers.SAMPLERS) == {f"{a}_{b}" for a in ("pgs", "random", "zoo") for b in ("ebs", "random")}


def test_the_work_goes_on_where_it_was(tmp_path, monkeypatch):
    done = []

    def grow(folder, pair, tasks):
        assert folder == tmp_path / "data" / f"samplers-{pair.replace('_', '-')}"
        done.append((pair, tasks))

    monkeypatch.setattr(samplers, "grow", grow)
    ranking = {"spearman": 0.5, "top_1": 0.8}
    monkeypatch.setattr(
        samplers, "fitted", lambda dataset, folder, on: {"tasks": 9, "records": 360, "ranking": ranking}
    )

    def one_of_each(network, seed, folder, searches, overrides):
        done.append((network, list(searches)))
        assert searches["zoo_random"][-1] == f"checkpoint={tmp_path / 'models' / 'zoo_random' / 'checkpoint'}"
        run = {"seed": seed, "measured": 8, "search_s": 1.0}
        return {**dict.fromkeys(searches, run), "side_by_side_s": dict.fromkeys(searches, 0.01)}

    monkeypatch.setattr(contest, "one_of_each", one_of_each)
    words = ["--size", "20", "--networks", "resnet18", "--runs-in", str(tmp_path)]
    words += ["--data", str(tmp_path / "data")]
    late = arguments_of([*words, "--minutes", "-1"])
    runs = KeptRuns(late, 1.0)
    assert measured(late, runs)["networks"] == {} and runs.left_out == ["data-pgs_ebs-20"]
    arguments = arguments_of(words)
    found = measured(arguments, KeptRuns(arguments, 1.0))
    assert [one[0] for one in done] == [*samplers.SAMPLERS, "resnet18"]
    assert found["models"]["random_ebs"]["ranking"] == ranking
    assert measured(arguments, KeptRuns(arguments, 1.0)) == found and len(done) == 7
