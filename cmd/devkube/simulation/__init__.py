"""Life for a test cluster: controllers, a scheduler, nodes and kubelets. Off by default, nothing real runs.

Each part looks at what is there, asked of the API in process, and brings it nearer to what is wanted; what it is to
look at again it hears from the store after each write, so that nothing is stale and `settle` knows when all is done.

    simulation     the parts together, who looks at what when; settle and elapse for tests
    client, loops  the API as one actor sees it, Events; a controller's queue
    owning         Pods and their owners: claiming, making, counting
    deployments    with their ReplicaSets; sets (StatefulSets, DaemonSets); jobs; nodes; scheduler
    kubelet        carries out the lives of Pods: lives (one Pod and its containers), plans (what annotations tell),
                   podstatus (how it is told)

What is left out stands in devkube's README.
"""
