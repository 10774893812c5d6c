"""Passes of an iteration of conjugate gradients or GMRES on a GPU; see `cpms.experiment.kinds.passes.measure`."""

from cpms.experiment.kinds.passes.measure import Config as Config
from cpms.experiment.kinds.passes.measure import Context as Context
