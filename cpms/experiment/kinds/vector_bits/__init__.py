"""Bits of vectors of linear solves; see `cpms.experiment.kinds.vector_bits.measure`."""

from cpms.experiment.kinds.vector_bits.measure import Config as Config
from cpms.experiment.kinds.vector_bits.measure import Context as Context
