"""The whole road from edges to certified ranks; `cpms.experiment.kinds.road.measuring` says what is timed."""

from cpms.experiment.kinds.road.measuring import Config as Config
from cpms.experiment.kinds.road.measuring import Context as Context
