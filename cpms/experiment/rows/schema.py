"""The schema of flattened rows: the type, the unit and the meaning of each column, from one table.

``docs/rows.md`` is generated from it, and a test compares it with the recorded rows and the kinds of experiments. Units
are those of the SI; "1" is a pure number (ISO 80000-1).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

TYPES = ("text", "integer", "number", "boolean", "JSON")


class Column(NamedTuple):
    """A column of flattened rows.

    Parameters
    ----------
    name : str
    type : str
        One of `TYPES`; JSON is text that holds a list or an object.
    unit : str
        "1" for pure numbers and counts, empty for texts and truth values.
    meaning : str
    """

    name: str
    type: str
    unit: str
    meaning: str


_TABLE = """
experiment|text||name of the experiment
cell|text||hash of the cell's parameters
result|integer|1|place of the result within its cell
graph|text||the graph or matrix, as the configuration names it
parameters|text||the parameters that distinguish the result from the others of its cell
status|text||ok; CONVERGED and so on of linear systems; else why it was not measured
reason|text||why it was not measured, or why a method or format was chosen
kind|text||kind of the experiment
name|text||name of a contestant of other software, or a program
contestant|text||name of a contestant for top-k
version|text||version of a contestant of other software
entry|integer|1|place of the result among those of its row with the same parameters
variant_json|JSON||settings of a contestant of other software
repetition|integer|1|number of the repetition
rounds|integer|1|rounds, in each of which all contestants run once
samples|integer|1|samples of each measurement; of kind sweeps, runs
warmup|integer|1|unmeasured runs before
shuffle|integer|1|seed of the order of the cells
outliers|text||keep; set aside: outliers are in columns of their own
solves|integer|1|solves by the same processes, or that a prepared graph is announced for
sweeps|integer|1|sweeps of a run, the first of which is not timed
queries|integer|1|queries of a batch
switch|number|1|relative residual from which on vectors have their second format
restart|integer|1|basis vectors of a cycle of GMRES
history_points|integer|1|points of a history that a row keeps, at most
first|integer|1|seed of a cell's first system
systems|integer|1|systems of a cell
largest|integer|1|unknowns of a system, at most
mean_bits|number|bits|bits read of a value of a vector, in the mean
seed|integer|1|seed of random choices
values|integer|1|length of the array
bytes|number|bytes|memory traffic of a sweep, or the size of the array
graph_name|text||the graph that was loaded
stand_in_for|text||the graph in whose place a generated one was taken
nodes|integer|1|nodes of the graph
edges|integer|1|edges of the graph
dangling|text||policy for nodes without outgoing edges; of kind graphs their number
rows|integer|1|rows of the matrix
columns|integer|1|columns of the matrix
entries|integer|1|entries of the matrix
symmetric|text||which half of a symmetric file is read
weights|text||how weights of edges are used
duplicates|text||repeated edges: keep each, drop all but the first, or sum their weights
ids|text||nodes: keep, all ids up to the largest; compact, those of edges alone
read_options_json|JSON||options with which the file of the graph was read
engine|text||engine that ran it
method|text||method that was asked for
used|text||method that solved, of auto the chosen one
storage|text||format of the stored values
stored_as|text||format of the stored values that was used, of auto the chosen one
storages_json|JSON||formats of a cell
engines_json|JSON||engines of a cell
layout|text||layout of the sparse matrix
indices|text||storage of column indices
algorithm|text||algorithm of a library
device|text||device that ran it
devices|integer|1|number of devices
devices_json|JSON||devices of a cell
vectors|text||format of the vectors of a product
vectors_json|JSON||formats of the vectors
vectors_as_json|JSON||formats of the vectors that were used, of auto the chosen ones
preconditioner|text||preconditioner that was asked for
preconditioner_storage|text||format of what the preconditioner reads, as it was asked for
block|integer|1|rows of a block of block Jacobi
inner|text||method inside refine, as it was asked for
preconditioner_used|text||preconditioner that was used, of auto the chosen one, and its format
rhs|text||right-hand side
compute|text||format of arithmetic
policy_json|JSON||controller of precision
write_ahead|integer|1|segments written beyond those read
most_read|integer|1|segments that sweeps read at most
read|integer|1|segments that are read
whole|boolean||contest: without trimming and lumping; linear: the matrix is prepared again for each solve
plain|boolean||without Anderson acceleration
error_feedback|boolean||whether sweeps carry rounding errors of few bits to the next; none: as the engine chooses
convergence_estimate|boolean||whether the rate is estimated before preparation; none: as the engine chooses
batch|integer|1|queries at a time; 0 for one after another
start|text||first iterate
penalty|number|1|weight of nodes without in-edges in the first iterate
limit|integer|1|most queries of this contestant
pattern|text||order of the values
dtype|text||type of the values
k|integer|1|entries that are selected
ks_json|JSON||numbers of selected entries
add|text||how sums are accumulated
adds_json|JSON||ways to accumulate
work_group|integer|1|work items of a group
work_groups_json|JSON||sizes of work groups
cores|integer|1|compute units in use
cores_json|JSON||numbers of compute units
stage|text||stage of the algorithm, such as product or update; sweep is a whole sweep, solution of eight iterations
stages_json|JSON||stages of a cell
others_json|JSON||other engines that take part
also_json|JSON||contestants beside those of engines and storages
ours_json|JSON||contestants of cpms
peers_json|JSON||contestants of other software
local|text||engine of each rank
local_json|JSON||engines of each rank
ways_json|JSON||solvers of a linear system
clock|text||where the clock of a contestant starts: its matrix, or edges
purpose|text||name of a run of kind opencl; of a quoted time, what it covers
sums|text||storage where products and sums are rounded to the storage's type, edge by edge
source|text||of a quoted row, where its number is from
scaling|text||strong or weak
exchange|text||how ranks exchange values
fixed|boolean||all bits are read in every iteration
only_json|JSON||graphs to which a contestant is restricted
refused_json|JSON||contestants that could not run, with reasons
arrangement_json|JSON||arrangement of the edges
arrangements_json|JSON||arrangements of a cell
renumbered|boolean||nodes were reordered
in_bins|boolean||tiles of x were staged in shared memory
ranks|integer|1|processes
ranks_json|JSON||numbers of processes
threads_a_rank|integer|1|threads of a process
damping|number|1|damping factor
norm|text||norm of the stopping criterion
tol|number|1|tolerance that was asked for
reference_tol|number|1|tolerance of the reference solution
max_iterations|integer|1|iterations at most
record_history|boolean||whether histories are recorded
certify|boolean||whether answers are certified
timeout_s|number|s|time at most
converged|boolean||the certified residual is within the tolerance
solver_status|text||status by the solver
iterations|integer|1|iterations
iterations_json|JSON|1|iterations of each query
iterations_by_bits_json|JSON|1|iterations by bits read
iterations_by_bits_written_json|JSON|1|iterations by bits written
bits|number|bits|bits of a value that are read
bits_json|JSON|bits|bits read: of each iteration, or iterations by bits
history_json|JSON|1, bits, 1, s|each iteration: residual, bits, mass, s; linear: number, residual, bits, bytes
residual|number|1|certified relative residual
residual_l1|number|1|certified residual in the 1-norm
reference_residual_l1|number|1|residual of the reference in the 1-norm
error_bound|number|1|bound of the error in the 1-norm
error_l1|number|1|error against the reference in the 1-norm
error|number|1|largest relative error; of linear systems in the 2-norm; or the error that contestants are to reach
difference_l1|number|1|difference from the answer on one device in the 1-norm
mass|number|1|sum of the ranks
top_json|JSON|1|nodes of the highest ranks, with their ranks
top20_overlap|number|1|share of the 20 highest ranks that the reference has too
top20_accuracy|number|1|share of the 20 highest ranks at the reference's places
certified|integer|1|queries that are certified
answered|integer|1|queries with an answer
certified_answers|integer|1|answers that were certified
certified_converged|integer|1|certified answers within the tolerance
solver_converged|integer|1|queries that the solver reports as converged
zero_share|number|1|share of values that are zero
subnormal_share|number|1|share of values that are subnormal
differing|integer|1|values that are not those of cpms
differing_from_main_memory|integer|1|values rounded otherwise in device memory than in main memory
same_values|boolean||the selected values are those of the reference
same_places|boolean||the selected places are those of the reference
counts_json|JSON|1|systems by outcome for each solver
solve_s|number|s|one solve, the median of its samples
solve_samples_s_json|JSON|s|samples of one solve
whole_s|number|s|one whole call, preparation and certificate included, the median of its samples
whole_samples_s_json|JSON|s|samples of one whole call
solve_set_aside_s_json|JSON|s|outliers among the samples of one solve, which its median leaves out
solves_s|number|s|one solve on all ranks
step_s_json|JSON|s|time from the start of the solve to the end of each iteration
seconds_by_bits_s_json|JSON|s|time of iterations by bits read
sweep_s_by_bits_json|JSON|s|one sweep by bits read
query_s|number|s|one query
query_samples_s_json|JSON|s|time of each query, or of each batch of queries
run_s|number|s|one run on the device; of kind startup, of a process
run_samples_s_json|JSON|s|samples of one run
begin_s|number|s|part of a run: start of a sweep
add_s|number|s|part of a run: sums
norms_s|number|s|part of a run: norms
copy_on_device_s|number|s|copy of the vector on the device
copy_through_host_s|number|s|copy of the vector through the host
copy_in_memory_s|number|s|copy of the vector in main memory
prepare_s|number|s|preparation of the operator, conversion included
build_s|number|s|building of the matrix or solver
built_s|number|s|edges in main memory to a graph there, at this cell's threads
built_samples_s_json|JSON|s|samples of built_s
load_s|number|s|loading of the graph
numbering_s|number|s|reordering of the nodes
certify_s|number|s|certification of the answer
check_s|number|s|check of the answer
reset_s|number|s|change of the teleport vector
join_s|number|s|start of the ranks
waited_s|number|s|waiting for other ranks
cell_s|number|s|the whole cell
exchange_s|number|s|exchanges of a solve on the rank that waits least, the median of samples
exchange_64_bits_s|number|s|exchange of values of 64 bits
exchange_16_bits_s|number|s|exchange of values of 16 bits
median_ms|number|ms|median of samples
least_ms|number|ms|least of samples
most_ms|number|ms|most of samples
sweep_us|number|us|one sweep, the median over the single sweeps of all runs
least_us|number|us|least of the single sweeps of all runs
most_us|number|us|most of the single sweeps of all runs, some of which include an update of x
run_us_json|JSON|us|the mean sweep of each run, over whole periods of the deferred update of x
amortised_us|number|us|the mean sweep of a long run, derived: the median of run_us
update_us|number|us|what a deferred update of x adds to a sweep, derived: eight times amortised_us less sweep_us, or 0
amortised_bytes|number|bytes|memory traffic of the mean sweep of a long run, derived: bytes and an eighth of an update's
gather_us|number|us|gathers of a sweep alone
copy_json|JSON|ms|copy of the array: median, least, most
bandwidth_gbps|number|1e9 bytes/s|least_bytes of a stage over its median time
copy_gbps|number|1e9 bytes/s|copy
host_copy_gbps|number|1e9 bytes/s|copy in main memory, on all threads, read and written
copy_least_gbps|number|1e9 bytes/s|copy, least of samples
copy_most_gbps|number|1e9 bytes/s|copy, most of samples
convert_gbps|number|1e9 bytes/s|conversion to the format
convert_least_gbps|number|1e9 bytes/s|conversion to the format, least of samples
convert_most_gbps|number|1e9 bytes/s|conversion to the format, most of samples
restore_gbps|number|1e9 bytes/s|conversion back
restore_least_gbps|number|1e9 bytes/s|conversion back, least of samples
restore_most_gbps|number|1e9 bytes/s|conversion back, most of samples
gather_2_byte_giga_per_s|number|1e9/s|gathers of 2 bytes
gather_4_byte_giga_per_s|number|1e9/s|gathers of 4 bytes
gather_8_byte_giga_per_s|number|1e9/s|gathers of 8 bytes
ceilings_json|JSON|1e9 bytes/s, 1e9/s|copy and gather rates of the device
launches_a_sample|integer|1|launches that a sample times
as_one_graph|boolean||launches were one CUDA graph
matrix_bytes|integer|bytes|size of the stored matrix
matrix_bytes_by_rank_json|JSON|bytes|size of the stored matrix of each rank
edges_by_rank_json|JSON|1|edges of each rank
foreign_values_by_rank_json|JSON|1|values that each rank receives a sweep
held_bytes|integer|bytes|memory that the solver holds
least_bytes|integer|bytes|memory traffic of a product or stage at least, or of all sweeps of a solve by power iteration
bytes_read|integer|bytes|bytes of matrix and vectors that were read, and of fused conjugate gradients those written, too
peak_memory_bytes|integer|bytes|highest memory of the process
received_bytes|integer|bytes|bytes received a sweep
exchange_64_bits_received_bytes|integer|bytes|bytes received at 64 bits
exchange_16_bits_received_bytes|integer|bytes|bytes received at 16 bits
exchange_64_bits_link_share|number|1|share of the link's bandwidth that an exchange of 64 bits uses
exchange_16_bits_link_share|number|1|share of the link's bandwidth that an exchange of 16 bits uses
link_bytes_per_s|number|bytes/s|copies between neighbouring devices, all at a time
busy_cores|number|1|processor time over time
load_average_before|number|1|processes that ran or waited to run in the minute before the cell, in the mean
empty_rows|integer|1|rows without entries
self_loops|text||edges from a node to itself: keep or drop; of kind graphs their number
row_quantiles_json|JSON|1|quantiles of out-degrees (rows of the adjacency matrix)
row_histogram_json|JSON|1|rows by length, from powers of two
column_quantiles_json|JSON|1|quantiles of in-degrees (columns of the adjacency matrix)
column_histogram_json|JSON|1|columns by length, from powers of two
cpms_version|text||version of cpms
code_digest|text||digest of the code of cpms
git_commit|text||commit of the code of cpms
git_dirty|boolean||the code differed from the commit
config_sha256|text||digest of the configuration without its comments
plugins_json|JSON||plug-ins that ran
time_utc|text||when it was measured
threads|integer|1|threads of the process
cpu|text||processor
cpu_mhz|number|MHz|clock of the processor before the cell
cpu_least_mhz|number|MHz|lowest clock of the processor
cpu_most_mhz|number|MHz|highest clock of the processor
affinity|text||processors of the process
os|text||operating system
kernel|text||kernel of the operating system
gpu|text||GPU
gpu_most_mhz|number|MHz|highest clock of the GPU
gpu_memory_most_mhz|number|MHz|highest clock of the GPU's memory
cuda_driver|integer|1|version of the CUDA driver
cuda_runtime|integer|1|version of the CUDA runtime
opencl_device|text||OpenCL device
opencl_platform|text||OpenCL platform
opencl_cores|integer|1|compute units of the OpenCL device
mpi_library|text||MPI library
nccl_version|integer|1|version of NCCL
version_python|text||version of Python
version_numpy|text||version of NumPy
version_scipy|text||version of SciPy
version_numba|text||version of Numba
version_cupy_cuda13x|text||version of CuPy
version_cupy_cuda12x|text||version of CuPy
version_pyopencl|text||version of PyOpenCL
version_mpi4py|text||version of mpi4py
version_torch|text||version of PyTorch
version_pychop|text||version of pychop
version_gfloat|text||version of gfloat
version_ml_dtypes|text||version of ml_dtypes
solvers_json|JSON||methods, each with its engine
commands_json|JSON||calls of cpms rank, each with its method, engine and caches
caches|text||folders for compiled code: empty in each run, or warm from earlier ones
old_rounds|integer|1|rounds that also build and certify on processors
compile_s|number|s|compilation in the unmeasured runs
graph_digest|text||digest of the graph's arrays
graph_files_digest|text||digest of the files of the graph
difference_bound|number|1|sum of both certified error bounds
difference_from_processors_l1|number|1|L1 distance from the processors' answer
residual_on_processors_l1|number|1|L1 residual by the certificate on processors
changed|number|1|share of the edges that an update exchanges
update_iterations|integer|1|sweeps of the last update
"""
_WAYS = {
    "road": "edges in main memory to certified ranks there",
    "old_road": "the same with graph and certificate on processors",
    "call": "call with a graph in main memory",
    "prepared": "solve of a prepared object",
    "update": "edges exchanged, and the changed graph solved from the last ranks",
    "device_update": "the same with a graph on the device, ranks left there",
    "device_road": "edges on the device to certified ranks there",
    "device_prepared": "solve of an object prepared on the device",
}
"""The ways of kind ``road``, whose times are recorded as a whole and by stages."""
_STAGES = {"": "", "_prepare": "; preparation alone", "_solve": "; iterations alone", "_certify": "; certificate alone"}


@cache
def columns() -> dict[str, Column]:
    """Return the columns by name.

    Examples
    --------
    >>> columns()["solve_s"].type, columns()["solve_s"].unit
    ('number', 's')
    """
    made = [Column(*line.split("|")) for line in _TABLE.strip().splitlines()]
    for way, meaning in _WAYS.items():
        for stage, of in _STAGES.items():
            made.append(Column(f"{way}{stage}_s", "number", "s", f"{meaning}{of}; median of samples"))
            made.append(Column(f"{way}{stage}_samples_s_json", "JSON", "s", f"{meaning}{of}; samples"))
    return {column.name: column for column in made}


def unit_of(name: str) -> str:
    """Return the unit of a column; for a column that the schema lacks, that of the ending of its name.

    Examples
    --------
    >>> unit_of("sweep_us"), unit_of("my_own_s"), unit_of("colour")
    ('us', 's', '')
    """
    endings = {"_s": "s", "_ms": "ms", "_us": "us", "_gbps": "1e9 bytes/s", "_bytes": "bytes", "_mhz": "MHz"}
    known = columns().get(name)
    return known.unit if known else next((unit for end, unit in endings.items() if name.endswith(end)), "")


def page() -> str:
    """Return the page ``docs/rows.md``."""
    lines = [f"| `{each.name}` | {each.type} | {each.unit} | {each.meaning} |" for each in columns().values()]
    return _HEAD + "\n".join(["| column | type | unit | meaning |", "|---|---|---|---|", *lines]) + "\n"


_HEAD = """# Columns of rows

This page is generated by `cpms.experiment.rows.schema.page`. A test compares it with the recorded rows.

    cpms rows out                         # experiments and columns of a folder, as text
    cpms rows topk --csv topk.csv         # one line a result; of a name, the rows in out come first
    cpms rows out --parquet rows.parquet

In Python:

```python
from cpms.experiment.rows.flat import read_table

table = read_table("topk")  # recorded rows by name; rows of your own by path, such as read_table("out/mine.jsonl")
print(table.groupby(["contestant", "k"]).median_ms.median())
```

Each line is one result. Columns of a cell are repeated on each of its results. A parameter that a contestant leaves to
its default may be empty: an empty `method` is `power`. Lists and objects are JSON in columns
that end in `_json`. Unit 1 is a pure number. A column that a plug-in adds has the unit of its ending: `_s`, `_ms`,
`_us`, `_gbps` (1e9 bytes a second), `_bytes`, `_mhz`.

"""
