"""Programs of templates: outputs over odd shapes, the instructions that they use, and their traces."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen.passes import improve_code
from foretune.compiler.instruction_sets import INSTRUCTION, INSTRUCTIONS, Instruction
from foretune.compiler.replay import replay, trace_to_json
from foretune.compiler.templates.cpu import programs
from foretune.compiler.templates.cpu.choice import candidates
from foretune.compiler.templates.cpu.contraction import read_contraction
from foretune.compiler.templates.cpu.intrinsics.registry import register_intrinsics
from foretune.compiler.templates.cpu.programs import scheduled, template_traces
from foretune.compiler.templates.cpu.vector_schedule import apply_vectors
from foretune.compiler.tvm_compat import make_tune_context, parse_target
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from tests.support.contractions import Convolution, Product, run_checked, tolerance
from tests.support.cpus import require

SERVER = Target({"kind": "llvm", "mcpu": "sapphirerapids", "num-cores": 2})
MNEMONICS = {
    "amx_bf16": "tdpbf16ps",
    "amx_u8s8": "tdpbusd",
    "amx_s8s8": "tdpbssd",
    "avx512_bf16": "vdpbf16ps",
    "avx512_vnni_u8s8": "vpdpbusd",
    "avx512_vnni_s8s8": "vpdpbusd",
    "avx_vnni_u8s8": "vpdpbusd",
    "avx_vnni_s8s8": "vpdpbusd",
    "avx512_madd_u8s8": "vpmaddwd",
    "avx512_madd_s8s8": "vpmaddwd",
    "avx2_madd_u8s8": "vpmaddwd",
    "avx2_madd_s8s8": "vpmaddwd",
    "avx512_fma": "vfmadd",
    "avx2_fma": "vfmadd",
}


def target_of(instruction: Instruction) -> Target:
    """Target with the instruction, which this machine need not have."""
    base = "x86-64-v4" if instruction.lanes >= 16 else "x86-64-v3"
    features = [f"+{feature}" for feature in instruction.features]
    return Target({"kind": "llvm", "mcpu": base, "mattr": features, "num-cores": 2})


def columns_of(instruction: Instruction, vectors: int, filled: bool = False) -> st.SearchStrategy[int]:
    """Up to so many vectors; float32, and what is filled up, may leave a part of the last one empty."""
    whole = st.integers(1, vectors).map(lambda count: count * instruction.lanes)
    return whole | st.integers(1, vectors * instruction.lanes) if filled or instruction.step == 1 else whole


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        (Product(197, 48, 64), {(9,), (8,), (1,)}),
        (Product(64, 48, 64), {(9,), (8,), (7,)}),
        (Convolution(73, 16, 48), {(1, 1, 9), (1, 1, 8), (1, 1, 1)}),
        (Convolution(35, 16, 48), {(1, 1, 7), (1, 1, 5), (1, 1, 1)}),
    ],
)
def test_tiles_with_a_remainder_are_there_where_others_are_small(
    task: Product | Convolution, expected: set[tuple[int, ...]]
) -> None:
    contraction = read_contraction(task.module())
    assert contraction is not None
    found = candidates(contraction, INSTRUCTION["avx512_fma"])
    assert {t.row_tile for t in found if t.vectors == 3} == expected


def test_a_remainder_of_rows_has_code_of_its_own() -> None:
    """197 rows are 21 tiles of 9 and one of 8; a condition in the loop would halve its speed."""
    task, target = Product(197, 768, 64), target_of(INSTRUCTION["avx512_fma"])
    contraction = read_contraction(task.module())
    assert contraction is not None
    template = next(t for t in candidates(contraction, INSTRUCTION["avx512_fma"]) if t.row_tile == (9,))
    improve_code()
    program = scheduled(task.module(), contraction, template, target)
    code = tvm.compile(program.mod, target=target).mod.inspect_source("asm")
    assert code.count("vfmadd") == (9 + 8) * template.vectors * template.unroll


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (96, {(1, 0), (2, 0), (3, 0)}),
        (58, {(2, 29), (4, 58)}),
        (40, {(1, 10), (2, 20), (3, 40)}),
        (3, {(1, 3)}),
        (197, set()),
    ],
)
def test_panels_fill_their_vectors_at_least_by_half(columns: int, expected: set[tuple[int, int]]) -> None:
    """Panels divide the columns; 197 is a prime number."""
    task = read_contraction(Product(28, columns, 64).module())
    assert task is not None
    found = candidates(task, INSTRUCTION["avx512_fma"])
    assert {(t.vectors, t.ragged) for t in found} == expected
    assert all(columns % t.columns == 0 for t in found)


def test_a_product_of_two_activations_fills_its_last_panel_up() -> None:
    task = read_contraction(Product(197, 197, 64, batch=2).module())
    assert task is not None
    found = {(t.vectors, t.ragged) for t in candidates(task, INSTRUCTION["avx512_fma"])}
    assert found == {(1, 0), (2, 0), (3, 0), (4, 0)}


def test_rows_of_low_precision_are_filled_up_where_they_lack_little() -> None:
    """197 = 15 * 14 - 13 = 16 * 13 - 11 = 17 * 12 - 7: more than a sixteenth is not filled up."""
    task = read_contraction(Product(197, 64, 64, "bfloat16").module())
    assert task is not None
    rows = {t.row_tile for t in candidates(task, INSTRUCTION["avx512_bf16"]) if t.vectors == 2}
    assert rows == {(13,), (12,), (1,)}


@pytest.mark.parametrize(
    ("task", "name"),
    [
        (Product(197, 197, 64, batch=2, transposed=True), "avx512_fma"),
        (Product(40, 37, 50, batch=2), "avx2_fma"),
        (Product(1, 1, 32, batch=12, transposed=True), "avx2_fma"),
        (Product(1, 1, 50, batch=2), "avx2_fma"),
        (Product(197, 197, 64, "bfloat16", batch=2, transposed=True), "avx512_bf16"),
        (Product(64, 64, 197, "bfloat16", batch=2), "avx512_bf16"),
        (Product(197, 64, 32, "bfloat16", epilogue="relu"), "avx512_bf16"),
        (Product(53, 30, 77, "uint8", batch=2), "avx512_vnni_u8s8"),
    ],
)
def test_what_is_filled_up_is_left_out_of_the_output(task: Product, name: str) -> None:
    instruction, contraction = INSTRUCTION[name], read_contraction(task.module())
    target = target_of(instruction)
    require(target)
    assert contraction is not None
    templates = candidates(contraction, instruction)
    for template in templates[:: max(len(templates) // 4, 1)]:
        program = scheduled(task.module(), contraction, template, target)
        found, expected = run_checked(task, program.mod, target)
        assert np.abs(found - expected).max() <= tolerance(task) * np.abs(expected).max()


def test_low_precision_has_whole_vectors_alone() -> None:
    task = read_contraction(Product(28, 58, 64, "bfloat16").module())
    assert task is not None
    assert candidates(task, INSTRUCTION["avx512_bf16"]) == candidates(task, INSTRUCTION["amx_bf16"]) == []


@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids=lambda instruction: instruction.name)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_products_of_odd_shapes_agree_with_numpy(instruction: Instruction, data: st.DataObject) -> None:
    target = target_of(instruction)
    require(target)
    batch = data.draw(st.sampled_from([0, 0, 2]))
    filled = bool(batch) and not instruction.tiles
    depth = st.integers(1, 40).map(lambda steps: steps * instruction.step)
    task = Product(
        rows=data.draw(st.integers(1, 40)),
        columns=data.draw(columns_of(instruction, 5, filled)),
        depth=data.draw(depth | st.integers(1, 80) if filled else depth),
        dtype=instruction.data,
        batch=batch,
        transposed=data.draw(st.booleans()),
        epilogue="none" if batch else data.draw(st.sampled_from(["none", "relu", "convert"])),
    )
    check(task, instruction, target, data)


@pytest.mark.parametrize("instruction", INSTRUCTIONS, ids=lambda instruction: instruction.name)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_convolutions_of_odd_shapes_agree_with_numpy(instruction: Instruction, data: st.DataObject) -> None:
    target = target_of(instruction)
    require(target)
    kernel = data.draw(st.sampled_from([1, 3]))
    task = Convolution(
        size=data.draw(st.integers(3, 17)),
        channels=instruction.step * data.draw(st.integers(1, 8)),
        filters=data.draw(columns_of(instruction, 4)),
        kernel=kernel,
        stride=data.draw(st.sampled_from([1, 2])),
        padding=data.draw(st.sampled_from([0, 1])) if kernel == 3 else 0,
        dtype=instruction.data,
        epilogue=data.draw(st.sampled_from(["none", "relu", "convert"])),
    )
    check(task, instruction, target, data)


def check(task: Product | Convolution, instruction: Instruction, target: Target, data: st.DataObject) -> None:
    """Compares one of the templates with NumPy."""
    module = task.module()
    contraction = read_contraction(module)
    assert contraction is not None
    possible = candidates(contraction, instruction)
    assume(possible)  # tiles need two rows and two words at least, and 67 columns divide into no panels
    template = data.draw(st.sampled_from(possible))
    program = scheduled(module, contraction, template, target)
    got, expected = run_checked(task, program.mod, target)
    scale = max(float(np.abs(expected).max()), 1.0)
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance(task) * scale, err_msg=str(template))


@pytest.mark.parametrize(("name", "words"), [("amx_bf16", 14), ("amx_u8s8", 7), ("amx_s8s8", 7)])
def test_a_row_of_a_tile_holds_several_pixels_of_few_channels(name: str, words: int) -> None:
    """Seven pixels of four channels follow each other in memory; the next output begins two pixels on."""
    instruction = INSTRUCTION[name]
    target = target_of(instruction)
    task = Convolution(
        size=18,
        channels=4,
        filters=32,
        kernel=7,
        stride=2,
        padding=3,
        dtype=instruction.data,
        epilogue="relu",
    )
    module = task.module()
    contraction = read_contraction(module)
    assert contraction is not None
    program = scheduled(module, contraction, candidates(contraction, instruction)[0], target)
    assert f"{name}.load_data.9x{words}s2c4" in trace_to_json(program.trace)
    require(target)
    got, expected = run_checked(task, program.mod, target)
    scale = max(float(np.abs(expected).max()), 1.0)
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance(task) * scale)


def test_tiles_of_two_shapes_take_turns() -> None:
    """Each program finds the tiles configured by the other one: 16 rows, then 14."""
    instruction = INSTRUCTION["amx_bf16"]
    target = target_of(instruction)
    require(target)
    tasks = Product(32, 32, 64, "bfloat16"), Product(28, 32, 64, "bfloat16")
    for task in (*tasks, *tasks):
        module = task.module()
        contraction = read_contraction(module)
        assert contraction is not None
        program = scheduled(module, contraction, candidates(contraction, instruction)[0], target)
        got, expected = run_checked(task, program.mod, target)
        scale = max(float(np.abs(expected).max()), 1.0)
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance(task) * scale)


@pytest.mark.parametrize("name", MNEMONICS)
def test_the_code_has_the_instruction(name: str) -> None:
    instruction = INSTRUCTION[name]
    module = Product(28, 96, 64, instruction.data, epilogue="relu").module()
    contraction = read_contraction(module)
    assert contraction is not None
    target = target_of(instruction)
    program = scheduled(module, contraction, candidates(contraction, instruction)[0], target)
    code = tvm.compile(program.mod, target=target).mod.inspect_source("asm")
    assert MNEMONICS[name] in code
    assert "callq\tforetune" not in code  # the function is inlined


@pytest.mark.parametrize(
    "name",
    [
        *("avx512_bf16", "avx512_vnni_u8s8", "avx512_vnni_s8s8", "avx_vnni_u8s8"),
        *("avx512_madd_u8s8", "avx512_madd_s8s8", "avx2_madd_u8s8", "avx2_madd_s8s8"),
    ],
)
def test_sums_stay_in_registers(name: str) -> None:
    """No vector is stored in the loop that multiplies: a store for each product takes longer than it."""
    instruction = INSTRUCTION[name]
    module = Product(28, 96, 1024, instruction.data).module()
    contraction = read_contraction(module)
    assert contraction is not None
    target = target_of(instruction)
    program = scheduled(module, contraction, candidates(contraction, instruction)[0], target)
    code = tvm.compile(program.mod, target=target).mod.inspect_source("asm")
    blocks = re.split(r"^\.L\w+:", code, flags=re.MULTILINE)
    loop = max(blocks, key=lambda block: block.count(MNEMONICS[name]))
    products = loop[loop.index(MNEMONICS[name]) : loop.rindex(MNEMONICS[name])]
    assert products.count(MNEMONICS[name]) >= 8
    assert re.findall(r"vmov\w+\s+%[xyz]mm\d+, [^%\n]*\(", products) == []


def test_traces_replay_within_a_search() -> None:
    module = Convolution(14, 64, 64, kernel=3, padding=1, dtype="bfloat16", epilogue="relu").module()
    context = make_tune_context(module, SERVER, seed=0)
    traces = template_traces(module, SERVER, None, 4)
    assert len(set(traces)) == 4
    for trace in traces:
        candidate = replay(context, trace)
        assert candidate is not None
        assert trace_to_json(candidate.sch.trace) == trace


def test_a_template_that_fails_is_left_out_and_named(monkeypatch, caplog) -> None:
    module = Product(28, 96, 64).module()
    most = len(template_traces(module, SERVER, None, 100))
    calls = iter(range(most))

    def fails_once(sch, task, template, cores) -> None:
        if next(calls) == 0:
            raise tvm.error.InternalError("Check failed: a template with a fault")
        apply_vectors(sch, task, template, cores)

    monkeypatch.setattr(programs, "apply_vectors", fails_once)
    assert len(template_traces(module, SERVER, None, 100)) == most - 1
    (message,) = caplog.messages
    assert "left out Template(" in message and "a template with a fault" in message


@pytest.mark.cpu
def test_stock_tvm_compiles_a_template_from_a_database(tmp_path: Path) -> None:
    target = parse_target("llvm")
    task = Product(28, 96, 64, epilogue="relu")
    module = task.module()
    candidate = replay(make_tune_context(module, target, seed=0), template_traces(module, target, None, 1)[0])
    assert candidate is not None
    database = ms.database.JSONDatabase(work_dir=str(tmp_path))
    workload = database.commit_workload(module)
    database.commit_tuning_record(
        ms.database.TuningRecord(candidate.sch.trace, workload, [1e-6], target, candidate.args_info)
    )
    register_intrinsics((tmp_path / "database_tuning_record.json").read_text())
    found = ms.database.JSONDatabase(work_dir=str(tmp_path)).query_schedule(module, target, "main")
    assert found is not None
    got, expected = run_checked(task, found.mod, target)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)


def test_a_name_that_is_no_template_registers_nothing() -> None:
    register_intrinsics("foretune.nothing foretune.avx512_bf16.multiply.1x1s1 dot_16x4_vnni")
