"""Life for a test cluster: controllers, a scheduler, nodes and kubelets. Off by default, nothing real runs.

Each part looks at what is there, asked of the API in process, and brings it nearer to what is wanted; what it is to
look at again it hears from the store after each write, so that nothing is stale and `settle` knows when all is done.

    simulation     the parts together, each with its queue; settle and elapse for tests
    client         the API as one actor sees it, Events
    deployments    Deployments and ReplicaSets; sets (StatefulSets, DaemonSets); jobs; workloads: what they share
    nodes          nodes, and which of them a Pod gets
    kubelet        carries out the lives of Pods: life (a Pod's containers by time, and what annotations tell),
                   podstatus (how it is told)

What is left out stands in devkube's README.
"""
