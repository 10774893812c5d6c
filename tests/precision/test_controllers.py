"""Controllers, tested by replaying residual histories: no matrix, no engine."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import cpms
from cpms import AtMost, Fixed, InputError, Level, Schedule, StartAt, Threshold, WriteAhead, format_named
from cpms.formats.formats import NAMED
from cpms.precision.controllers import FLOAT64, default_controller
from cpms.testing import float_formats, segment_formats

pytestmark = pytest.mark.quick

GRAPH = cpms.Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0])

THRESHOLDS = {16: 0.625, 32: 10 * 2.0**-20, 48: 10 * 2.0**-36}
residual_lists = st.lists(
    st.one_of(st.floats(0.0, 2.0), st.sampled_from([1e-3, 1e-6, 1e-9, 1e-11, 0.625])), max_size=30
)
formats = st.one_of(st.sampled_from(NAMED), segment_formats(), float_formats())


@st.composite
def controllers(draw, storage):
    read = st.integers(1, storage.segments)
    rises = sorted(draw(st.lists(read, min_size=1, max_size=4)))
    steps = [0, *sorted(draw(st.sets(st.integers(1, 20), min_size=len(rises) - 1, max_size=len(rises) - 1)))]
    controller = draw(
        st.sampled_from(
            [
                *(Fixed(draw(read)), Fixed(), Threshold(), Threshold(stagnation=False), Threshold(factor=1000.0)),
                Schedule(dict(zip(steps, rises, strict=True))),
            ]
        )
    )
    if draw(st.booleans()):
        controller = StartAt(controller, draw(read))
    if draw(st.booleans()):
        controller = WriteAhead(controller, draw(st.integers(1, 3)))
    if draw(st.booleans()):
        controller = AtMost(controller, draw(read))
    return controller


@st.composite
def replays(draw):
    storage = draw(formats)
    return storage, draw(controllers(storage)), draw(residual_lists)


def levels(*pairs):
    return [FLOAT64 if pair == (0, 0) else Level(*pair) for pair in pairs]


# Laws of every controller


@given(replays())
def test_no_sweep_reads_what_was_not_written(replay):
    storage, controller, residuals = replay
    replayed = controller.replay(storage, residuals)
    assert len(replayed) == len(residuals) + 1
    for level, following in pairwise(replayed):
        if level == FLOAT64:
            assert following == FLOAT64
        elif following != FLOAT64:
            assert level.read <= following.read <= level.write
    assert all(1 <= level.read <= level.write <= storage.segments for level in replayed if level != FLOAT64)


@given(replays())
def test_a_controller_is_a_value_whose_memory_is_its_state(replay):
    storage, controller, residuals = replay
    _, state = controller.init(storage)
    for residual, expected in zip(residuals, controller.replay(storage, residuals)[1:], strict=True):
        first, second = controller.update(state, residual), controller.update(state, residual)
        assert first[0] == second[0] == expected
        state = first[1]


# The paper's rule


def the_papers_program(residuals, kept, stagnation=True):
    """Levels as sections III and IV of the paper tell them, as one loop; ``kept`` are the mantissa bits by segment."""
    told, read, write, before = [], 1, 1, math.inf
    last = len(kept)
    for residual in [None, *residuals]:
        if residual is not None and read != 0:
            if write > read:
                read = write
            elif read == last:
                read = write = 0
            elif residual <= 10.0 * 2.0 ** -kept[read - 1] or (stagnation and residual >= before):
                write = read + 1
            before = residual
        told.append((read, write))
    return levels(*told)


@given(residual_lists, st.sampled_from(["cpms2", "cpms4", "cpms8", "seg16-16-32", "cpms4-planes"]), st.booleans())
@example([0.9, 0.5, 0.4, 1e-6, 9e-7, 1e-11, 1e-12, 1e-13], "cpms4", True)
def test_the_threshold_rule_is_the_papers_program(residuals, name, stagnation):
    storage = format_named(name)
    kept = [storage.mantissa_kept(read) for read in range(1, storage.segments + 1)]
    assert Threshold(stagnation=stagnation).replay(storage, residuals) == the_papers_program(
        residuals, kept, stagnation
    )


@pytest.mark.parametrize(("read", "threshold"), [(1, 0.625), (2, 9.5367431640625e-06), (3, 1.4551915228366852e-10)])
def test_the_thresholds_of_four_segments_are_those_the_paper_prints(read, threshold):
    controller = Threshold()
    level, state = controller.init(cpms.CPMS4)
    for rise in range(1, read):
        for residual in (THRESHOLDS[16 * rise], THRESHOLDS[16 * rise] / 2):
            level, state = controller.update(state, residual)
    assert level == Level(read, read)
    assert controller.update(state, math.nextafter(threshold, 1))[0] == Level(read, read)
    assert controller.update(state, threshold)[0] == Level(read, read + 1)


def test_a_history_like_those_of_table_2():
    # Residuals that fall by the damping factor, as those of the road and web graphs do, down to 1e-10.
    residuals = [0.85**k for k in range(1, 143)]
    replayed = Threshold().replay(cpms.CPMS4, residuals)[:-1]
    by_bits = {bits: sum(level.read * 16 == bits for level in replayed) for bits in (16, 32, 48, 64)}
    by_bits[64] += replayed.count(FLOAT64)
    # Sweep k leaves 0.85^k. A threshold t is met by sweep ceil(log t / log 0.85); the sweep after it is
    # the last that reads the old level. At full precision everything is converted one sweep later.
    met = [math.ceil(math.log(threshold) / math.log(0.85)) for threshold in THRESHOLDS.values()]
    assert met == [3, 72, 140]
    assert by_bits == {16: 4, 32: 73 - 4, 48: 141 - 73, 64: 142 - 141}
    assert replayed[3:5] == levels((1, 2), (2, 2))
    assert replayed[140:142] == levels((3, 4), (4, 4))


def test_two_segments_rise_once_and_then_convert():
    replayed = Threshold().replay(cpms.CPMS2, [0.5, 1e-5, 9e-6, 8e-6, 1e-7, 1e-8, 1e-8])
    assert replayed == levels((1, 1), (1, 1), (1, 1), (1, 2), (2, 2), (0, 0), (0, 0), (0, 0))


def test_a_residual_that_does_not_fall_raises_the_precision():
    residuals = [0.9, 0.9, 0.8, 0.7]
    assert Threshold().replay(cpms.CPMS4, residuals) == levels((1, 1), (1, 1), (1, 2), (2, 2), (2, 2))
    assert Threshold(stagnation=False).replay(cpms.CPMS4, residuals) == levels(*[(1, 1)] * 5)


def test_no_rise_comes_of_the_first_residual_being_compared_with_nothing():
    assert Threshold().replay(cpms.CPMS4, [1e300])[1] == Level(1, 1)


def test_packed_floats_rise_straight_to_float64():
    assert Threshold().replay(cpms.FP16, [0.5, 0.01, 0.0097, 0.0097]) == levels((1, 1), (1, 1), (1, 1), (0, 0), (0, 0))
    assert Threshold().replay(cpms.FP32, [0.5, 0.5, 0.1]) == levels((1, 1), (1, 1), (0, 0), (0, 0))


def test_one_exact_segment_stays_as_it_is():
    assert Threshold().replay(cpms.FP64, [0.5, 0.5, 0.0]) == levels(*[(1, 1)] * 4)


# The others


def test_fixed_reads_the_same_to_the_end():
    assert Fixed(3).replay(cpms.CPMS4, [1.0, 1.0, 0.0]) == levels(*[(3, 3)] * 4)
    assert Fixed().replay(cpms.CPMS4, [1.0]) == levels(*[(4, 4)] * 2)
    assert Fixed().replay(cpms.FP16, [1.0]) == levels(*[(1, 1)] * 2)


def test_a_schedule_writes_ahead_of_each_rise():
    schedule = Schedule({0: 1, 2: 2, 5: 4})
    expected = levels((1, 1), (1, 2), (2, 2), (2, 2), (2, 4), (4, 4), (4, 4))
    assert schedule.replay(cpms.CPMS4, [1.0] * 6) == expected
    assert Schedule({5: 4, 0: 1, 2: 2}).replay(cpms.CPMS4, [0.0] * 6) == expected


def test_write_ahead_writes_more_but_never_more_than_there_is():
    residuals = [0.9, 0.5, 0.4, 1e-6, 9e-7, 1e-11, 1e-12, 1e-13]
    plain, ahead = (controller.replay(cpms.CPMS4, residuals) for controller in (Threshold(), WriteAhead(Threshold())))
    assert [level.read for level in ahead] == [level.read for level in plain]
    assert ahead == levels((1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (3, 4), (3, 4), (4, 4), (0, 0))
    assert WriteAhead(Fixed(2), by=9).replay(cpms.CPMS4, []) == levels((2, 4))


def test_start_at_skips_the_levels_below():
    residuals = [0.9, 0.5, 0.4, 1e-6, 9e-7]
    assert StartAt(Threshold(), 2).replay(cpms.CPMS4, residuals) == levels(*[(2, 2)] * 4, (2, 3), (3, 3))
    assert StartAt(Threshold(), 4).replay(cpms.CPMS4, [0.5]) == levels((4, 4), (4, 4))


@given(residual_lists, segment_formats(), st.data())
def test_at_most_is_the_inner_rule_until_that_reads_more(residuals, storage, data):
    most = data.draw(st.integers(1, storage.segments))
    inner, limited = (rule.replay(storage, residuals) for rule in (Threshold(), AtMost(Threshold(), most)))
    for level, expected, following in zip(limited, inner, [*limited[1:], None], strict=True):
        if expected == FLOAT64 or expected.read > most:
            assert level == FLOAT64
        else:
            assert level.read == expected.read
            assert level.write == (storage.segments if expected.write > most else expected.write)
        if following == FLOAT64 != level:
            assert level.write == storage.segments


@pytest.mark.parametrize("known", NAMED, ids=lambda known: known.name)
def test_the_default_is_the_papers_rule_but_for_float64(known):
    assert default_controller(known) == (Fixed() if known.name == "fp64" else Threshold())


# Bad input


@pytest.mark.parametrize("factor", [-1.0, float("nan"), float("inf")])
def test_a_factor_that_is_no_size_is_refused(factor):
    with pytest.raises(InputError, match=r"factor is .*; it must be 0 or more"):
        Threshold(factor=factor)


@pytest.mark.parametrize("rises", [{}, {1: 1}, {0: 2, 3: 1}, {-1: 1, 0: 2}, {0: 1, 1: 3, 2: 2}])
def test_a_schedule_begins_at_sweep_0_and_never_falls(rises):
    with pytest.raises(InputError, match="schedule"):
        Schedule(rises)


@pytest.mark.parametrize(
    "controller",
    [Fixed(5), Fixed(0), Fixed(-1), Schedule({0: 5}), Schedule({0: 0}), StartAt(Threshold(), 5), AtMost(Fixed(), 0)],
    ids=repr,
)
def test_levels_that_the_format_does_not_have_are_refused_at_the_start(controller):
    with pytest.raises(InputError, match="4 segments"):
        controller.replay(cpms.CPMS4, [])


@pytest.mark.parametrize("planned", [(1, 1), None, "1"])
def test_what_is_no_level_is_refused(planned):
    class Careless(cpms.Controller):
        def init(self, _):
            return Level(1, 1), 0

        def update(self, *_):
            return planned, 0

    with pytest.raises(InputError, match=r"Careless returned .*; a controller must return a pair: a cpms.Level and"):
        cpms.pagerank(GRAPH, storage="cpms4", engine="reference", controller=Careless())


def test_a_rise_without_writing_ahead_says_what_to_return():
    class Hasty(cpms.Controller):
        def init(self, _):
            return Level(1, 1), 1

        def update(self, state, _):
            return Level(state + 1, state + 1), state + 1

    with pytest.raises(InputError, match=r"let it return Level\(read=1, write=2\) one sweep earlier"):
        cpms.pagerank(GRAPH, storage="cpms4", engine="reference", controller=Hasty())


@pytest.mark.parametrize(
    "make",
    [
        lambda: Threshold("a"),
        lambda: Schedule({0: "a"}),
        lambda: Schedule({0: 1, "3": 2}),
        lambda: AtMost(Threshold, 2),
        lambda: StartAt(None, 2),
        lambda: WriteAhead("paper"),
    ],
)
def test_parts_of_controllers_are_checked_when_made(make):
    with pytest.raises(InputError, match=r"must be a|wraps another"):
        make()


@pytest.mark.parametrize("wrap", [lambda c: c, WriteAhead, lambda c: StartAt(c, 1), lambda c: AtMost(c, 2)])
@pytest.mark.parametrize(("storage", "rises"), [("cpms2", {0: 1, 90: 2}), ("cpms4", {0: 1, 70: 2, 140: 4})])
def test_no_solve_ends_before_a_rise_that_is_to_come(wrap, storage, rises):
    graph = cpms.Graph.from_edges([0, 1, 2, 3, 0], [1, 2, 3, 0, 2])
    controller = wrap(Schedule(rises))
    result = cpms.pagerank(graph, storage=storage, layout="csr", damping=0.5, engine="reference", controller=controller)
    assert result.converged
    assert result.iterations > max(rises)
    never = cpms.pagerank(graph, storage=storage, layout="csr", damping=0.5, engine="reference", controller=Fixed(1))
    assert not never.converged
