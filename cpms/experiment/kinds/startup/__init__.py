"""Cold starts: the time of ``cpms rank`` in a fresh process; `cpms.experiment.kinds.startup.measuring` times it."""

from cpms.experiment.kinds.startup.measuring import Config as Config
from cpms.experiment.kinds.startup.measuring import Context as Context
