"""Times of rounding arrays to a format, by cpms and other software."""

from cpms.experiment.kinds.rounding.measuring import Config as Config
from cpms.experiment.kinds.rounding.measuring import Context as Context
