"""Bits of vectors of linear solves; `cpms.experiment.kinds.vector_bits.measure` says what is counted."""

from cpms.experiment.kinds.vector_bits.measure import Config as Config
from cpms.experiment.kinds.vector_bits.measure import Context as Context
