"""The meanings of configuration keys: one line for each key, for the page of configurations.

A key has the same meaning in every kind, unless a line begins with the kind, or with the table that contains the key.
The page refuses a key without a line, and a test writes the page.
"""

from __future__ import annotations

from cpms.base.errors import InputError

_LINES = """
graphs|graphs as `cpms.load` names them: data sets, files or generators; a table adds options of reading
matrices|matrices by specification, such as `stencil:points=7,side=64`, or files
contestants|what takes part; in each round all of them run once, in turn
layouts|how matrices are stored, such as `csr`, `ell`, `pattern`
storages|number formats by name
engines|engines by name
methods|methods by name
tolerances|residuals in L1 at which solves stop
tol|residual at which a solve stops
rounds|times that each contestant is measured
warmup|unmeasured runs before the measured ones
samples|measured repetitions of each result; rows keep their median, least and most
certify|whether each answer's residual is computed again by other code
reference_tol|tolerance of a float64 solution that errors are distances from; none: no errors
device|where the arrays lie
sizes|numbers of values of the arrays
symmetric|a symmetric file stores one triangle: edges of it alone, or of both
damping|damping factor of PageRank
norm|norm of the residual that stops a solve
dangling|where the mass of nodes without out-edges goes: to nodes as the teleport vector says, or to all nodes alike
max_iterations|iterations after which a solve ends without an answer
weights|`auto`: weights of edges are used; `ignore`: they are not
duplicates|what becomes of repeated edges
self_loops|what becomes of edges from a node to itself
ids|whether node numbers stay, or those without edges are left out
record_history|whether a row holds the residual and bits of each iteration
policies|rules of the precision; an empty table is the method's own
seed|seed of the choice of nodes
engine|engine by name
storage|number format by name, or `auto` where the method chooses
layout|how the matrix is stored, such as `csr` or `pattern`; none, of kind `contest`: as `layouts` says
method|method by name
vectors|formats of the vectors; `auto` leaves the choice to cpms
preconditioner|preconditioner of CG or GMRES
ways.preconditioner_storage|format of what the preconditioner reads; none: as many bits as it needs
ways.block|rows of a block of block Jacobi; none: 8
ways.inner|method inside `refine`; none: as `auto` chooses
ways.restart|basis vectors of a cycle of GMRES; none: 100
right_hand_sides|all ones; random; where the kind takes it, known: A times a random solution, for the column `error`
ways|ways to solve; figures compare with the first
history_points|most points of the recorded residuals; 0 records none
whole|whether the matrix is prepared again for each solve
ranks|numbers of MPI ranks
timeout_s|seconds after which ranks are stopped
solves|solves by the same processes
queries|number of personalised queries, of random nodes
contest.contestants|what takes part: one solve of each a round, in turn
contestants.write_ahead|segments written beyond those read
contestants.most_read|segments read before the switch to float64
contestants.whole|true: without trimming and lumping
contestants.plain|true: without Anderson acceleration
contestants.fixed|true: all bits are read in every iteration
contestants.tol|tolerance in place of the experiment's
contestants.only|graphs of this contestant; by default all
contestants.ranks|ranks of engine `mpi`
contestants.device|device of engine `opencl`, by a part of its name
contestants.error_feedback|false: rounding errors are not carried to the next sweep
contestants.convergence_estimate|false: `refine` does not choose by an estimate of the convergence
contestants.batch|queries that a sweep serves; 0: one query after the other
contestants.queries|most queries of this contestant
contestants.least_tol|tightest tolerance that this contestant takes part in
contestants.most_tol|loosest tolerance that this contestant takes part in
contestants.certified|answers that are certified
contestants.sums|`storage`: sums are formed in the type of the storage, one edge after the other
contestants.indices|width of column indices: `auto`, or by name
contestants.compute|format of products and sums
contestants.vectors|format of the vectors
settings|stopping rules and initial guesses, each with every contestant
settings.starts|initial guess: `uniform`, or `penalised` with less weight on nodes without in-edges
ppr.penalty|weight of nodes without in-edges in the initial guess `penalised`
policies.rule|rule of the precision; `default` is the method's own
policies.factor|threshold: bits rise when the residual is at most this times 2^-m, with m mantissa bits read
policies.stagnation|threshold: bits rise too when the residual does not decrease
policies.read|segments read, of rules `fixed`, `at_most` and `start_at`
policies.write_ahead|segments written beyond those read
policies.start_at|segments that the first iteration reads
policies.at_most|segments read before the switch to float64
policies.rises|rule `schedule`: segments by iteration, such as `{0 = 1, 20 = 2}`
policies.plugin|controller or policy of your own, as `file.py:name`
policies.by|segments written beyond those read, of rule `write_ahead`
policies.inner|rule that another one wraps
policies.formats|formats that rule `adaptive_reduction` chooses from
policies.storage|format of rule `fixed_reduction`
policies.inner_reduction|factor by which inner sweeps reduce the residual before float64 takes over
first|seed of the first system
systems|number of random systems
together|systems of one cell
largest|most unknowns of a system
honesty.ways|solvers that take part
passes.ways|formats of matrix and vectors, all of whose passes take turns; figures compare with the first
runs|graphs, each with its contestants
runs.purpose|name of the run, which tables and figures are found by
runs.graph|graph as `cpms.load` names it
runs.nodes|sub-graphs of so many first nodes; by default the whole graph
runs.iterations|iterations of a run
runs.stages|kernels by layout
runs.storages|number formats of values
runs.work_groups|work-items of a work-group; 0: the driver's choice
runs.cores|cores in use; 0 or an empty list: all
runs.adds|how an edge adds to its target; all but `add_atomically` give wrong ranks, and show the cost of atomic sums
runs.others|other engines that take part
runs.devices|devices by name, in turn, in place of `device`
opencl.device|OpenCL device, by a part of its name; by default the first
ours|contestants of cpms
peers.peers|other libraries that take part
error|most distance in L1 from the reference solution
clock|where the clock starts: at each library's own matrix, or at edges
solvers|methods and engines, each measured on every way from edges to ranks
old_rounds|rounds that also build and certify on processors
road.solves|solves that a prepared graph is announced for
changed|share of the edges that an update exchanges for others
local|engines of the products of a rank
threads_a_rank|threads of a rank
strong|graphs of one size for all numbers of ranks
weak|graphs that grow with the ranks, such as `rmat:scale=20+LOG2RANKS`
scaling_gpu.storage|format of inner sweeps of method `refine`
scaling_gpu.solves|measured solves of each contestant
spmv.also|contestants beside those of `engines` and `storages`
spmv.stages|parts of a sweep that are timed alone, of engines on edges in COO; none: products, in rows without `stage`
commands|calls of `cpms rank`, each in a process of its own, in turn
commands.caches|folders for compiled code: `empty` in each run, or `warm` from earlier runs of the same command
startup.graphs|graphs as `cpms.load` names them: data sets, files or generators
startup.timeout_s|seconds after which a command is ended
sweeps.sweeps|sweeps of a sample
arrangements|arrangements of the graph in device memory; in a table, none leaves the choice to the engine
arrangements.renumber|nodes are ordered by out-degree where that saves memory transactions
arrangements.stretch_steps|tiles of 256 edges that a warp takes at a time; 0: one long range a warp
arrangements.warps|warps of a multiprocessor
arrangements.hot|values of hubs lie in shared memory (hub cache)
arrangements.bins|tiles of the vector are staged in shared memory (tiled gather)
arrangements.deal|values are sorted by target before they are added (propagation blocking)
arrangements.cached|kernel of graphs that fit the device's cache (in-cache sweeps)
arrangements.merge|nodes of equal columns are one node (lumping); no other key is possible beside it
topk.ks|numbers of largest values
topk.patterns|orders of the values
topk.dtypes|types of the values
vector_bits.vectors|formats of the vectors, each list a contestant: the second format follows the first at `switch`
vector_bits.switch|relative residual from which conjugate gradients go on in the second format
vector_bits.restart|iterations of GMRES before a restart
""".strip().split("\n")
_MEANINGS = dict(line.split("|", 1) for line in _LINES)


def meaning(kind: str, key: str, within: str = "") -> str:
    """Return what a key means in a kind of experiment, or within one of its tables.

    Raises
    ------
    InputError
        If no line is of the key.

    Examples
    --------
    >>> meaning("sweeps", "deal", within="arrangements")
    'values are sorted by target before they are added (propagation blocking)'
    """
    own = f"{within or kind}.{key}"
    found = _MEANINGS.get(own, _MEANINGS.get(key))
    if found is None:
        raise InputError(f"key {own} has no meaning; add its line to cpms/experiment/pages/key_meanings.py")
    return found
