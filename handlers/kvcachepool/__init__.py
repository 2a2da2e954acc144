"""KV cache injection: a Pod that opts in joins a shared Mooncake pool, or is told exactly why not.

names      the contract's constants           contract   what a Pod's annotations ask for
resolve    Binding, pool, backend, endpoint   ledger     may be joined, and as which tenant
transport  what a store offers, what fits     engines/   what each engine is given, and which keys are ours
owned      keys that a Pod may not set        launches   is what the container starts the engine
advisory   what is admitted with a warning    record     the annotation that says what was decided
inject     the chain of all these             freeze     what may not change on a Pod that lives
validate/  the custom resources               roles      what a ModelDeployment's roles are given
masking    what webhooks may see              shapes     what a Pod has to look like to be judged
admit      the webhooks                       system     what is watched
"""
