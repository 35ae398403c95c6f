"""Claims in documents: every figure and comparison is bound to the lake, or it is a finding.

::

    ... is 1.3x<!-- = SELECT speedup('dispatch', 'vllm', CELLS, mode := 'graph') --> faster than vLLM ...
    dispatch beats SGLang at 128 tokens ...<!-- claim: SELECT beats('dispatch', 'sglang', CELLS) -->
    <!-- quoted: source -->       a figure from elsewhere, or a prediction
    <!-- not-a-claim: reason -->  a false alarm
"""

from checks.claims.fix import Rewrite, fix
from checks.claims.model import Claim, ClaimsResult, Kind, Verdict
from checks.claims.new import NewClaim, new
from checks.claims.scan import scan

__all__ = ["Claim", "ClaimsResult", "Kind", "NewClaim", "Rewrite", "Verdict", "fix", "new", "scan"]
