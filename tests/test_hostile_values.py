"""Nothing but the project's own errors leaves a public function, whatever it is given; no warning of NumPy's does."""

from __future__ import annotations

import datetime
import decimal
import fractions
import math
import warnings

import networkx as nx
import numpy as np
import pytest
import scipy.sparse

import cpms
from cpms import CPMS4, FP16, CpmsError, Graph, InputError, Level, check, engines, testing
from cpms.base.validation import described
from cpms.precision import refinement_policy as refine
from cpms.problems.pagerank import Problem

HUGE = 10**5000


class Mute:
    """Has no text and no number."""

    def __repr__(self):
        raise RuntimeError

    __float__ = __index__ = __array__ = __repr__


VALUES = {
    "none": lambda: None,
    "nan": lambda: math.nan,
    "inf": lambda: -math.inf,
    "huge": lambda: HUGE,
    "negative huge": lambda: -HUGE,
    "list of huge": lambda: [HUGE, 1, 2, 3],
    "more than 64 bits": lambda: 2**70,
    "negative": lambda: -1,
    "truth": lambda: True,
    "float": lambda: 1.5,
    "x": lambda: "x",
    "nothing": lambda: "",
    "digits": lambda: "9" * 5000,
    "surrogate": lambda: "\ud800",
    "list": list,
    "mapping": dict,
    "object": object,
    "mute": Mute,
    "list of mute": lambda: [Mute()] * 4,
    "type": lambda: int,
    "ellipsis": lambda: ...,
    "bytes": lambda: b"ab",
    "set": lambda: {1, "x"},
    "generator": lambda: (number for number in (1, 2)),
    "ragged": lambda: [[1], [1, 2]],
    "mixed": lambda: [1.0, 0, 2, 1],
    "texts": lambda: ["1", "2", "3", "0"],
    "nones": lambda: [None, 1.0, 2.0, 3.0],
    "nans": lambda: np.full(4, math.nan),
    "largest": lambda: np.full(4, 1.7e308),
    "smallest": lambda: np.full(4, 5e-324),
    "0-d": lambda: np.array(0.5),
    "0-d whole": lambda: np.array(1),
    "one": lambda: np.array([1]),
    "2-d": lambda: np.ones((4, 4)),
    "3-d": lambda: np.ones((2, 2, 2)),
    "float32": lambda: np.ones(4, np.float32),
    "truths": lambda: np.array([True, False, True, True]),
    "unsigned": lambda: np.full(4, 2**64 - 1, np.uint64),
    "objects": lambda: np.array([1.0, None, "x", 2], object),
    "other order": lambda: np.ones(4, ">f8"),
    "records": lambda: np.zeros(4, [("a", "f8")]),
    "date": lambda: datetime.date(2020, 1, 1),
    "dates": lambda: np.array(["2020-01-01"] * 4, "M8[D]"),
    "time": lambda: np.timedelta64(3, "s"),
    "complex": lambda: np.complex128(1 + 2j),
    "complexes": lambda: np.ones(4) * 1j,
    "long double": lambda: np.longdouble("1e4000"),
    "long doubles": lambda: np.array(["1e4000", "1", "2", "3"], np.longdouble),
    "masked": lambda: np.ma.masked_array([1.0, 2.0, 3.0, 4.0], [0, 1, 0, 0]),
    "decimal": lambda: decimal.Decimal("1e5000"),
    "signalling": lambda: decimal.Decimal("sNaN"),
    "fraction": lambda: fractions.Fraction(HUGE, 3),
    "weights of nan": lambda: {0: math.nan},
    "weights of huge": lambda: {0: HUGE},
    "weights of complex": lambda: {0: 1j},
    "weights of none": lambda: {None: 1.0},
    "level": lambda: Level(5, 5),
    "graph": lambda: Graph.from_edges([0], [1]),
    "pair": lambda: (Level(1, 1), None),
    "format": lambda: CPMS4,
}

GRAPH = Graph.from_edges([0, 1, 2, 3], [1, 2, 0, 0])
CPU = engines.get("cpu")
CONTROLLERS = [cpms.Fixed(), cpms.Threshold(), cpms.Schedule(), cpms.StartAt(cpms.Fixed(), 1)]
POLICY = refine.AdaptiveReduction((FP16,))


class Careless(cpms.Controller):
    """Returns what it is made with, whatever it is."""

    def __init__(self, first, later):
        self.first, self.later = first, later

    def init(self, *_):
        return self.first

    def update(self, *_):
        return self.later


class CarelessPolicy(refine.RefinementPolicy):
    def __init__(self, planned):
        self.planned = planned

    def init(self):
        return self.planned

    def update(self, *_):
        return self.planned


def solved(**options):
    return cpms.pagerank(**{"graph": GRAPH, "engine": "cpu", "max_iterations": 100} | options)


def solved_at_levels(first, later):
    return solved(storage="cpms4", layout="csr", controller=Careless(first, later))


def stored(function):
    return lambda **given: getattr(cpms.encode([1.0, 2.0, 3.0, 4.0], "cpms4"), function)(**given)


DENSE = [[1.0, -2.0, 0.0, 0.5], [0.0] * 4, [0.25] * 4, [0.0, 3.0, 0.0, 1.0]]
STORED_OPTIONS = {"storage": "cpms4", "layout": "csr", "indices": "auto", "compute": "fp64", "scaling": "none"}
MATRIX = {"A": DENSE, **STORED_OPTIONS, "engine": "cpu", "shape": None}
TRIPLETS = {"rows": [0, 3], "columns": [1, 0], "values": [0.5, -2.0]}
VECTOR = [1.0, 2.0, 3.0, 4.0]


def stored_matrix(**given):
    return cpms.matrix(**given) @ np.ones(4)


def product(function):
    return lambda **given: getattr(cpms.matrix(DENSE, storage="cpms4", engine="cpu"), function)(**given)


def edge_of_networkx(node, weight):
    try:
        made = nx.DiGraph([(node, 1, {"weight": weight})])
    except Exception:  # noqa: BLE001 - no graph at all
        raise InputError("NetworkX refuses it") from None
    return Graph.from_networkx(made)


SOLVES = {
    "damping": 0.85,
    "tol": 1e-10,
    "norm": "l1",
    "max_iterations": 100,
    "personalization": None,
    "dangling": "teleport",
    "start": None,
    "controller": None,
}
BATCH = {"queries": [0, 1], "storage": "auto", "start": None, "width": None, "policy": None}
READS = ("bits", "mantissa_kept", "unit_roundoff", "bytes_read", "checked_read")
CALLS = [
    ("encode", cpms.encode, {"values": [1.0, 2.0], "format": "cpms4", "segments": None}),
    ("encode scaled", cpms.encode, {"values": [1.0, 2.0], "format": "fp16-scaled"}),
    ("convert_inplace", cpms.convert_inplace, {"values": np.ones(4), "format": "cpms4"}),
    ("format_named", cpms.format_named, {"name": "cpms4"}),
    ("SegmentFormat", cpms.SegmentFormat, {"name": "mine", "widths": (32, 32), "block": 32, "rounding": "zero"}),
    (
        "FloatFormat",
        cpms.FloatFormat,
        {"name": "mine", "exponent_bits": 5, "mantissa_bits": 10, "rounding": "nearest", "scaled": False, "seed": 0},
    ),
    *((f"{kind.name}.{name}", getattr(kind, name), {"read": 1}) for kind in (CPMS4, FP16) for name in READS),
    *((f"{kind.name}.nbytes", kind.nbytes, {"length": 1}) for kind in (CPMS4, FP16)),
    ("decode", stored("decode"), {"read": 1}),
    ("write", stored("write"), {"values": [1.0, 2.0, 3.0, 4.0], "segments": 1}),
    (
        "SegmentedArray",
        lambda **given: cpms.SegmentedArray(**given).decode(),
        {"memory": np.zeros(32, np.uint8), "length": 4, "format": CPMS4, "exponent": 0},
    ),
    ("Level", Level, {"read": 1, "write": 1}),
    ("Fixed", lambda read: cpms.Fixed(read).replay(CPMS4, [0.5]), {"read": 1}),
    ("Threshold", cpms.Threshold, {"factor": 10.0, "stagnation": True}),
    ("Schedule", lambda rises: cpms.Schedule(rises).replay(CPMS4, [0.5]), {"rises": {0: 1}}),
    ("WriteAhead", lambda inner, by: cpms.WriteAhead(inner, by).init(CPMS4), {"inner": cpms.Fixed(1), "by": 1}),
    ("StartAt", lambda inner, read: cpms.StartAt(inner, read).init(CPMS4), {"inner": cpms.Fixed(1), "read": 1}),
    ("AtMost", lambda inner, read: cpms.AtMost(inner, read).init(CPMS4), {"inner": cpms.Fixed(1), "read": 1}),
    *((f"{one}.replay", one.replay, {"storage": CPMS4, "residuals": [0.5]}) for one in CONTROLLERS),
    *((f"{one}.update", one.update, {"state": one.init(CPMS4)[1], "residual": 0.5}) for one in CONTROLLERS),
    *((f"{one}.rises_later", one.rises_later, {"state": one.init(CPMS4)[1]}) for one in CONTROLLERS),
    ("pagerank", solved, {"graph": GRAPH, "method": "power", "storage": "auto", "layout": "auto", "engine": "cpu"}),
    ("pagerank by power", solved, SOLVES),
    ("pagerank by refine", lambda **given: solved(method="refine", **given), SOLVES),
    ("controllers", solved_at_levels, {"first": (Level(1, 1), None), "later": (Level(1, 1), None)}),
    ("levels", lambda level: solved_at_levels((level, None), (level, None)), {"level": Level(1, 1)}),
    (
        "wrapped controllers",
        lambda made: solved(storage="cpms4", layout="csr", controller=cpms.AtMost(Careless(made, made), 1)),
        {"made": (Level(1, 1), None)},
    ),
    (
        "policies",
        lambda planned: solved(method="refine", start=np.ones(4), controller=CarelessPolicy(planned)),
        {"planned": (refine.InnerPlan(FP16, 0.5), None)},
    ),
    ("batch", lambda **given: cpms.personalized_pagerank(GRAPH, engine="cpu", **given), BATCH),
    (
        "batch by refine",
        lambda **given: cpms.personalized_pagerank(GRAPH, engine="cpu", method="refine", **given),
        BATCH,
    ),
    ("query", lambda query: cpms.personalized_pagerank(GRAPH, [query, 0], engine="cpu"), {"query": 0}),
    ("matrix", stored_matrix, MATRIX),
    ("matrix of triplets", lambda **given: cpms.matrix(tuple(given.values()), engine="cpu"), TRIPLETS),
    ("matrix of a shape", lambda shape: cpms.matrix(([0], [1], [2.0]), shape=shape, engine="cpu"), {"shape": (2, 2)}),
    ("StoredMatrix.matvec", product("matvec"), {"x": VECTOR, "read": None, "read_x": None, "out": None}),
    ("StoredMatrix.rmatvec", product("rmatvec"), {"x": VECTOR, "read": None, "read_x": None, "out": None}),
    ("StoredMatrix.matmat", product("matmat"), {"X": np.ones((4, 2)), "read": None}),
    ("StoredMatrix.rmatmat", product("rmatmat"), {"X": np.ones((4, 2)), "read": None}),
    ("StoredMatrix.bytes_read", product("bytes_read"), {"read": 1}),
    ("StoredMatrix.error_bound", product("error_bound"), {"read": 1}),
    ("StoredMatrix.norm", product("norm"), {"kind": "fro"}),
    ("StoredMatrix.with_storage", product("with_storage"), STORED_OPTIONS),
    ("StoredMatrix.convert_inplace", product("convert_inplace"), {"storage": "cpms2"}),
    ("penalised_start", cpms.penalised_start, {"graph": GRAPH, "penalty": 0.1}),
    ("topk", cpms.topk, {"values": [1.0, 2.0, 3.0], "k": 2}),
    (
        "load",
        cpms.load,
        {
            "source": "grid:rows=2,columns=2",
            "symmetric": "lower",
            "duplicates": "keep",
            "weights": "auto",
            "ids": "keep",
        },
    ),
    ("generate", cpms.generate, {"spec": "grid:rows=2,columns=2"}),
    (
        "from_edges",
        Graph.from_edges,
        {
            "sources": [0, 1, 2, 3],
            "targets": [1, 2, 0, 0],
            "weights": None,
            "nodes": None,
            "duplicates": "keep",
            "self_loops": "keep",
            "name": "g",
            "first_id": 0,
            "names": None,
        },
    ),
    ("from_scipy", Graph.from_scipy, {"matrix": scipy.sparse.eye_array(4).tocoo(), "weights": "auto"}),
    ("from_networkx", Graph.from_networkx, {"graph": nx.DiGraph([(0, 1)]), "weight": "weight"}),
    ("from_networkx edges", edge_of_networkx, {"node": 0, "weight": 1.0}),
    (
        "Graph",
        Graph,
        {
            "indptr": np.array([0, 1]),
            "sources": np.array([0]),
            "weights": None,
            "names": None,
            "name": "g",
            "first_id": 0,
            "stand_in_for": None,
        },
    ),
    ("node_id", GRAPH.node_id, {"index": 0}),
    ("index_of", GRAPH.index_of, {"node": 0}),
    ("index_of names", Graph.from_edges([0], [1], names=["a", "b"]).index_of, {"node": "a"}),
    ("index_of numbers", Graph.from_edges([0], [1], names=[10, 20]).index_of, {"node": 10}),
    ("top", lambda k: solved().top(k), {"k": 3}),
    ("InnerPlan", refine.InnerPlan, {"storage": FP16, "inner_reduction": 0.5}),
    (
        "FixedReduction",
        lambda **given: refine.FixedReduction(**given).init(),
        {"storage": FP16, "inner_reduction": 0.5},
    ),
    ("AdaptiveReduction", lambda formats: refine.AdaptiveReduction(formats).init(), {"formats": (FP16,)}),
    ("AdaptiveReduction of one", lambda first: refine.AdaptiveReduction((first,)).init(), {"first": FP16}),
    ("AdaptiveReduction.update", POLICY.update, {"state": POLICY.init()[1], "promised": 0.1, "found": 0.2}),
    ("default_inner_reduction", refine.default_inner_reduction, {"storage": FP16}),
    ("default_policy", refine.default_policy, {"storage": FP16}),
    ("planned_storage", refine.planned_storage, {"policy": POLICY, "given": None, "otherwise": FP16}),
    *((law.__name__, law, {"format": "cpms4", "values": [0.1, 0.2]}) for law in check.FORMAT_LAWS),
    ("inplace law", check.inplace_equals_out_of_place, {"format": "cpms4", "values": [0.1, 0.2]}),
    *(
        (
            law.__name__,
            law,
            {"engine": "cpu", "problem": Problem(GRAPH), "storage": "cpms4", "layout": "csr", "level": Level(1, 1)},
        )
        for law in (check.sweeps_agree, check.queued_sweeps_agree)
    ),
    (
        "refinement law",
        check.refinement_is_sound,
        {"engine": CPU, "problem": Problem(GRAPH), "storage": "fp16", "low": 3},
    ),
    ("answer law", check.answer_is_certified, {"result": solved, "personalization": None, "dangling": "teleport"}),
    ("Problem", Problem, {"graph": GRAPH, "damping": 0.85, "teleport": None, "dangling": "teleport"}),
    (
        "PageRank",
        lambda **given: cpms.PageRank(**given).solve(),
        {
            "graph": GRAPH,
            "method": "power",
            "storage": "fp64",
            "layout": "auto",
            "engine": "cpu",
            "damping": 0.85,
            "controller": None,
            "certify": "auto",
            "solves": 1,
        },
    ),
    ("MagnitudeSplit", cpms.MagnitudeSplit, {"tolerance": 1e-6, "formats": (cpms.FP32, cpms.FP64), "by": "rows"}),
    (
        "solve",
        cpms.solve,
        {
            "A": np.eye(4),
            "b": np.ones(4),
            "method": "cg",
            "tol": 1e-6,
            "storage": "fp64",
            "engine": "cpu",
            "max_iterations": 9,
        },
    ),
    ("Solver", cpms.Solver, {"A": np.eye(4), "method": "cg", "storage": "fp64", "engine": "cpu"}),
    ("dominant_eigenpair", cpms.dominant_eigenpair, {"A": np.eye(4), "tol": 1e-6}),
    ("quantize", cpms.quantize, {"x": [0.1, 0.2], "format": "fp16", "rounding": None, "seed": 0}),
    ("encode_counted", cpms.encode_counted, {"values": [0.1, 0.2], "format": "fp16", "overflow": "inf"}),
    ("load_array", cpms.load_array, {"path": "missing.cpms"}),
    ("float_arrays", testing.float_arrays, {"min_size": 0, "max_size": 3, "near": "fp16"}),
    ("segment_formats", testing.segment_formats, {"max_block": 3}),
    ("float_formats", testing.float_formats, {"roundings": ("zero",), "scaled": None}),
    ("graphs", testing.graphs, {"max_nodes": 3, "weighted": None}),
    ("distributions", testing.distributions, {"nodes": 3}),
]


@pytest.mark.parametrize(("call", "valid"), [each[1:] for each in CALLS], ids=[each[0] for each in CALLS])
def test_a_public_function_answers_or_refuses_in_a_sentence(call, valid):
    valid = {key: value() if value is solved else value for key, value in valid.items()}
    for option in valid:
        for name, make in VALUES.items():
            given = {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in valid.items()}
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    call(**given | {option: make()})
            except CpmsError as error:
                text = str(error)
                assert text, (option, name)
                assert "\n" not in text, (option, name, text)
                assert len(text) < 400, (option, name, text)
            except Exception as error:
                raise AssertionError(f"{option} given {name}: {type(error).__name__}: {error}") from error


def test_every_public_name_is_called():
    called = {name.split(".")[0] for name, _, _ in CALLS} | {"personalized_pagerank", "Graph"}
    values = {name for name in cpms.__all__ if not callable(getattr(cpms, name))}
    kinds = {
        "Controller",
        "Layout",
        "RefinementPolicy",
        "CpmsError",
        "Format",
        "InputError",
        "UnavailableError",
        "UnsupportedError",
    }
    records = {"Largest", "Result", "Status", "Step", "Certificate", "Eigenpair", "LinearStep", "Solution"}
    records.add("SolveStatus")
    kinds.add("DeviceGraph")  # Its constructors need a device.
    assert set(cpms.__all__) - values - kinds - records <= called


# Advice that is possible


def test_a_level_that_a_format_has_no_segments_for_is_answered_with_those_it_has():
    with pytest.raises(InputError, match=r"Level\(read=5, write=5\), but cpms4 has 4 segments; .* to Level\(4, 4\)"):
        solved_at_levels((Level(5, 5), None), (Level(5, 5), None))
    with pytest.raises(InputError, match=r"fp16 has 1 segment; .* to Level\(1, 1\)"):
        solved(storage="fp16", layout="csr", controller=Careless((Level(1, 2), None), None))


def test_a_controller_that_returns_no_pair_learns_what_to_return():
    for made in (None, Level(1, 1), (Level(1, 1),), "ab"):
        with pytest.raises(InputError, match=r"a controller must return a pair: a cpms.Level and a state"):
            solved_at_levels(made, made)
        with pytest.raises(InputError, match=r"a controller must return a pair: a cpms.Level and a state"):
            solved_at_levels((Level(1, 1), None), made)


@pytest.mark.parametrize(
    "personalization", [[1.0, 0, 2], [0, 1.0], [True, 2], (1.0, "a"), [np.float32(1), np.int64(0)]]
)
def test_lists_of_weights_and_ids_are_refused(personalization):
    with pytest.raises(InputError, match=r"which is a weight, and .*, which is an id; give"):
        solved(personalization=personalization)


def test_lists_of_one_kind_are_taken():
    weights = solved(personalization=[1.0, 0.0, 2.0, 0.0])
    assert weights.ranks.tolist() == solved(personalization={0: 1, 2: 2}).ranks.tolist()
    assert solved(personalization=[2]).ranks.tolist() == solved(personalization={2: 1.0}).ranks.tolist()


def test_what_was_given_is_repeated_in_a_few_words():
    for make in VALUES.values():
        text = described(make())
        assert len(text) <= 80
        assert "\n" not in text
