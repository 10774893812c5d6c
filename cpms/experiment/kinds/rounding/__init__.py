"""Rounding of arrays to a format, by cpms and other software; the package is one kind of experiment."""

from cpms.experiment.kinds.rounding.measuring import Config as Config
from cpms.experiment.kinds.rounding.measuring import Context as Context
