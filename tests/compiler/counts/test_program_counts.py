"""Counts of programs: worked by hand, against a cache simulation, and against this machine's counters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from foretune.compiler.codegen.compilation import jit
from foretune.compiler.counts.instructions import chained_additions, executed_instructions
from foretune.compiler.counts.program_counts import count_program, full_vectors, register_bytes
from foretune.compiler.counts.traffic import LoweredStores, compulsory_bytes, traffic_bytes
from foretune.compiler.operators import Conv2d, to_task
from foretune.compiler.replay import RejectedError, instantiate
from foretune.compiler.task import count_flops
from foretune.compiler.tvm_compat import as_task_module, design_spaces, make_tune_context, parse_target
from foretune.dataset.hardware import Hardware
from foretune.dataset.measure.worker.memory_counters import count_fetched_bytes, uncounted_reason
from scipy.stats import spearmanr
from support.cache_simulator import LruCache, simulated_bytes
from support.products import matmul, ordered
from tvm import te
from tvm.s_tir.schedule import Schedule, Trace

DEVICE = Hardware("made up", "cpu", 2, 2.0, 256, 2**11, 2**13, 2**15, 100.0, 10.0)
TARGET = parse_target({"kind": "llvm", "num-cores": 2})


def sampled(task, count):
    """Programs of a task, drawn at random from its sketches in turns."""
    context = make_tune_context(task.mod, TARGET, seed=0, name=task.name)
    sketches = [Trace(space.trace.insts, {}) for space in design_spaces(context, task.name)]
    found, seed = [], 0
    while len(found) < count:
        seed += 1
        try:
            found.append(instantiate(context, sketches[seed % len(sketches)], seed).sch.mod)
        except RejectedError:
            continue
    return found


# -- by hand


@pytest.mark.parametrize(
    ("tile", "vectorise", "lanes", "instructions"),
    [
        (1, False, 256, 16**3),
        (8, True, 256, 16**3 / 8),
        (16, True, 256, 2 * 16**3 / 16),  # two registers
        (16, True, 512, 16**3 / 16),
        (4, True, 256, 16**3 / 4),  # half of a register, as many instructions as of whole ones
    ],
)
def test_a_vector_loop_has_fewer_instructions(tile, vectorise, lanes, instructions):
    mod = ordered(16, "i", "j", "k", tile=tile, vectorise=vectorise)
    # The initial zeros are stores without arithmetic, and a multiplication is one with its addition.
    assert executed_instructions(LoweredStores(mod), lanes) == instructions


@pytest.mark.parametrize(
    ("size", "order", "tile", "vectorise", "share"),
    [
        (64, "ijk", 1, False, 1 - 1.5 / 8),  # of a chain of 64 a core sees one and a half
        (16, "ijk", 1, False, 1 - 6 / 8),
        (64, "ijk", 4, False, 1 - 4 / 8),  # four sums at a time
        (64, "ijk", 8, False, 0),
        (64, "ikj", 1, False, 0),  # 64 sums at a time
        (64, "ijk", 8, True, 1 - 1.5 / 8),  # one vector at a time
        (64, "ijk", 32, True, 1 - 4 / 8),  # four vectors
        (8, "ijk", 1, False, 0),  # the next chains are in view
    ],
)
def test_additions_to_few_sums_wait(size, order, tile, vectorise, share):
    stores = LoweredStores(ordered(size, *order, tile=tile, vectorise=vectorise))
    assert chained_additions(stores, 256) == share * executed_instructions(stores, 256)


def test_functions_and_conditions_count_and_indices_do_not():
    x = te.placeholder((4, 8), name="x")
    soft = te.compute((4, 8), lambda i, j: te.exp(x[i, j] - 1.0) / 2.0, name="soft")
    padded = te.compute(
        (4, 10), lambda i, j: te.if_then_else(te.all(j >= 1, j < 9), soft[i, j - 1], 0.0), name="padded"
    )
    mod = as_task_module(te.create_prim_func([x, padded]))
    # A subtraction, 22 instructions of exp and a division; then a choice.
    assert executed_instructions(LoweredStores(mod), 256) == 4 * 8 * 24 + 4 * 10


def test_what_is_computed_twice_counts_twice():
    x = te.placeholder((18,), name="x")
    doubled = te.compute((18,), lambda i: x[i] * 2.0, name="doubled")
    r = te.reduce_axis((0, 3), name="r")
    blur = te.compute((16,), lambda i: te.sum(doubled[i + r], axis=r), name="blur")
    mod = as_task_module(te.create_prim_func([x, blur]))
    schedule = Schedule(mod)
    schedule.compute_at(schedule.get_sblock("doubled"), schedule.get_loops(schedule.get_sblock("blur"))[0])
    apart, inside = (executed_instructions(LoweredStores(each), 256) for each in (mod, schedule.mod))
    assert apart == 18 + 16 * 3
    assert inside == 16 * 3 + 16 * 3


def test_an_intermediate_beyond_the_cache_is_written_and_read_back():
    x = te.placeholder((64,), name="x")
    doubled = te.compute((64,), lambda i: x[i] * 2.0, name="doubled")
    shifted = te.compute((64,), lambda i: doubled[i] + 1.0, name="shifted")
    mod = as_task_module(te.create_prim_func([x, shifted]))
    assert traffic_bytes(mod, 64 * 4 * 2) == 2 * 64 * 4
    assert traffic_bytes(mod, 64 * 4 - 1) == 2 * 64 * 4 + 2 * 64 * 4


def test_scalars_have_a_place_in_the_cache():
    x, k = te.placeholder((64,), name="x"), te.reduce_axis((0, 64), name="k")
    mod = as_task_module(te.create_prim_func([x, te.compute((), lambda: te.sum(x[k], axis=k), name="all")]))
    nest = LoweredStores(mod)
    assert nest.traffic_bytes(2**10, 64, 4096) == nest.traffic_bytes(8) == nest.compulsory_bytes == 65 * 4


def test_lines_are_fetched_whole():
    x = te.placeholder((16, 32), name="x")
    column = te.compute((16,), lambda i: x[i, 3] * 2.0, name="column")
    mod = as_task_module(te.create_prim_func([x, column]))
    nest = LoweredStores(mod)
    # 16 elements of x and of the result, 128 bytes, fit; as lines of x they are 16 x 64 bytes and one line.
    assert nest.traffic_bytes(128) == nest.compulsory_bytes
    k = te.reduce_axis((0, 16), name="k")
    weights = te.placeholder((16, 16), name="weights")
    wide = te.placeholder((16, 16), name="wide")
    product = te.compute((4, 16), lambda i, j: te.sum(wide[i, k] * weights[k, j], axis=k), name="product")
    columns = LoweredStores(as_task_module(te.create_prim_func([wide, weights, product])))
    # A column of weights, a row of wide and a sum: 33 elements, or 16 + 1 + 1 lines.
    assert columns.traffic_bytes(33 * 4) < columns.traffic_bytes(33 * 4, 64)
    assert columns.traffic_bytes(18 * 64 + 4096, 64) == columns.compulsory_bytes


def test_short_rows_share_lines():
    x = te.placeholder((4, 3, 8), name="x")
    column = te.compute((4,), lambda i: x[i, 1, 2] * 2.0, name="column")
    k = te.reduce_axis((0, 2), name="k")
    again = te.compute((2, 4), lambda r, i: te.sum(x[i, k, r], axis=k), name="again")
    # Rows of 8 elements, two to a line: 96 elements are 6 lines, and 4 elements of rows 1, 4, 7 and 10 touch
    # lines 0 to 5. With four lines of cache, each of the two passes of `again` fetches all of them.
    one = LoweredStores(as_task_module(te.create_prim_func([x, column])))
    two = LoweredStores(as_task_module(te.create_prim_func([x, again])))
    assert one.traffic_bytes(64, 64) == one.compulsory_bytes
    assert two.traffic_bytes(4 * 64, 64) > two.compulsory_bytes == two.traffic_bytes(7 * 64, 64)


def columns_of(width):
    """Product of a row and a matrix of 32 rows of `width` elements, a column at a time."""
    k = te.reduce_axis((0, 32), name="k")
    x, y = te.placeholder((32,), name="x"), te.placeholder((32, width), name="y")
    product = te.compute((16,), lambda i: te.sum(x[k] * y[k, i], axis=k), name="product")
    return as_task_module(te.create_prim_func([x, y, product]))


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (1024, 32),  # rows 4096 bytes apart: all lines of a column are in one set
        (512, 16),  # in two sets
        (1024 + 16, 1),  # a line further each time: in 32 sets
        (1024 + 256, 8),  # in four sets
    ],
)
def test_lines_a_multiple_of_the_span_apart_compete_for_a_set(width, lines):
    nest = LoweredStores(columns_of(width))
    whole = nest.traffic_bytes(2**20, 64, 4096)
    assert whole == nest.compulsory_bytes == nest.traffic_bytes(2**13, 64)
    # A column is in the way of itself unless a set holds `lines`. Row and sums take up to 3 lines of any set.
    assert nest.traffic_bytes((lines - 1) * 4096, 64, 4096) > whole if lines > 1 else True
    assert nest.traffic_bytes((lines + 3) * 4096, 64, 4096) == whole


@pytest.mark.parametrize("ways", [2, 12])
def test_strides_rank_as_in_a_simulation_with_sets(ways):
    programs = [columns_of(width) for width in (256, 272, 512, 528, 1024, 1040, 1280, 2048)]
    simulated = [simulated_bytes(mod, ways * 4096, 64, 4096) for mod in programs]
    estimated = [traffic_bytes(mod, ways * 4096, 64, 4096) - compulsory_bytes(mod) for mod in programs]
    without = [traffic_bytes(mod, ways * 4096, 64) - compulsory_bytes(mod) for mod in programs]
    assert spearmanr(estimated, simulated).statistic > 0.8 and len(set(without)) == 1


def test_levels_take_the_sizes_of_the_device():
    mod = ordered(64, "i", "j", "k")
    flops = count_flops(mod)
    counts = count_program(mod, DEVICE, flops)
    stores = LoweredStores(mod)
    assert register_bytes(256) == 512 and register_bytes(512) == 2048
    assert counts.moved_bytes == (
        stores.traffic_bytes(512),
        stores.traffic_bytes(2**11, 64, 4096),  # the first cache has sets
        *(stores.traffic_bytes(size, 64) for size in (2**13, 2**15)),
    )
    assert counts.scattered == stores.scattered_accesses() == 0
    assert counts.contested == stores.contested_stores(2, 64) == 0  # of a program on one core
    assert counts.chained == chained_additions(stores, 256) > 0
    assert counts.runs == (stores.fetched_runs(2**11, 64, 4096), stores.fetched_runs(2**13, 64))
    # 100 elements do not hold a row and a column, a MB holds all.
    assert counts.moved_bytes[0] > 64**3 * 4
    assert count_program(mod, replace(DEVICE, l3_bytes=2**20), flops).moved_bytes[-1] == 3 * 64 * 64 * 4
    unknown = count_program(mod, replace(DEVICE, l3_bytes=0), flops).moved_bytes
    assert unknown == (*counts.moved_bytes[:3], counts.moved_bytes[2])


def test_no_program_is_below_the_bounds_of_its_task():
    mod = ordered(32, "i", "k", "j", tile=8, vectorise=True)
    counts = count_program(mod, DEVICE, count_flops(mod))
    assert min(counts.moved_bytes) >= compulsory_bytes(mod)
    assert counts.instructions == full_vectors(2 * 32**3, DEVICE)


def test_a_gpu_counts_bytes_past_its_last_cache_alone():
    device = replace(DEVICE, kind="cuda", vector_bits=1024)
    mod = ordered(64, "i", "j", "k")
    counts = count_program(mod, device, 2 * 64**3)
    assert counts.moved_bytes[:3] == (compulsory_bytes(mod),) * 3
    assert counts.moved_bytes[3] == traffic_bytes(mod, device.l2_bytes, 64)
    assert counts.instructions == 64**3 / 32
    assert (counts.scattered, counts.runs, counts.contested, counts.chained) == (0, (0, 0), 0, 0)


# -- against a cache simulation


def test_the_simulated_cache_replaces_the_least_recent_line():
    cache = LruCache(2 * 64, 64)
    for address in (0, 4, 64, 0, 128, 0, 64):
        cache.touch(address)
    # 0 and 64 are fetched, 128 takes the place of 64, and 64 that of 128.
    assert cache.fetched_bytes == 4 * 64


def test_the_simulation_agrees_with_the_hand():
    mod = matmul(16)
    assert simulated_bytes(mod, 2**16, 4) == 3 * 16 * 16 * 4
    assert simulated_bytes(mod, 2**16, 64) == 3 * 16 * 16 * 4


@pytest.mark.parametrize("cache_bytes", [512, 2048])
@pytest.mark.parametrize("line_bytes", [4, 64])
def test_orders_and_tiles_of_a_product_rank_as_in_a_simulation(cache_bytes, line_bytes):
    programs = [
        ordered(24, *order, tile=tile)
        for order in ("ijk", "ikj", "jik", "jki", "kij", "kji")
        for tile in (1, 4, 8)
    ]
    simulated = [simulated_bytes(mod, cache_bytes, line_bytes) for mod in programs]
    estimated = [traffic_bytes(mod, cache_bytes, line_bytes) for mod in programs]
    assert max(simulated) > 1.4 * min(simulated)
    assert spearmanr(estimated, simulated).statistic > 0.8


@pytest.mark.parametrize(("line_bytes", "least"), [(4, 0.9), (64, 0.7)])
def test_programs_of_a_convolution_rank_as_in_a_simulation(line_bytes, least):
    task = to_task(
        Conv2d(batch=1, in_channels=8, out_channels=8, height=10, width=10, kernel=(3, 3), padding=(1, 1))
    )
    programs = sampled(task, 16)
    simulated = [simulated_bytes(mod, 1024, line_bytes) for mod in programs]
    estimated = [traffic_bytes(mod, 1024, line_bytes) for mod in programs]
    assert spearmanr(estimated, simulated).statistic > least
    counts = {count_program(mod, DEVICE, 1.0) for mod in programs}
    assert len({each.instructions for each in counts}) > 1


# -- against the counters of this machine


@pytest.mark.skipif(bool(uncounted_reason()), reason=f"no counters of memory traffic: {uncounted_reason()}")
def test_the_counters_of_this_cpu_rank_strides_alike():
    n = 1 << 11
    x = te.placeholder((n, n), name="x")
    rows = as_task_module(te.create_prim_func([x, te.compute((n, n), lambda i, j: x[i, j] * 2.0, name="y")]))
    schedule = Schedule(rows)
    i, j = schedule.get_loops(schedule.get_sblock("y"))
    schedule.reorder(j, i)
    arrays = [tvm.runtime.tensor(np.ones((n, n), "float32")) for _ in range(2)]
    counted, estimated = [], []
    for mod in (rows, schedule.mod):
        run = jit(mod, TARGET)["main"]
        counted.append(count_fetched_bytes(lambda run=run: run(*arrays)))
        estimated.append(traffic_bytes(mod, 2**15, 64))
    assert estimated[1] > estimated[0]
    assert None in counted or counted[1] > 0.9 * counted[0]
