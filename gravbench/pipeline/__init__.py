"""From samples to requests, and from generations to one Markdown per page.

`plan` orders the work; `routing`, `crops`, `assembly` and `page` are the steps of reading a page.
"""

from gravbench.pipeline.plan import (
    group_size,
    limit_samples,
    order_plan,
    request_for,
    suite_digest,
    together,
)

__all__ = ["group_size", "limit_samples", "order_plan", "request_for", "suite_digest", "together"]
