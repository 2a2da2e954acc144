"""Life for a test cluster: controllers, a scheduler, nodes and kubelets. Off by default, nothing real runs.

Each part looks at what is there, asked of the API in process, and brings it nearer to what is wanted; what it is to
look at again it hears from the store after each write, so that nothing is stale and `settle` knows when all is done.

    simulation     the parts together, who looks at what when; settle and elapse for tests
    client, loops  the API as one actor sees it, Events; a controller's queue
    owning         Pods and their owners: claiming, making, counting; revisions: the templates they had
    deployments, replicasets, statefulsets, daemonsets, jobs, endpoints, nodes, scheduler       one controller each
    progress       what a Deployment's status tells
    kubelet        carries out the lives of Pods: lives (one Pod), containers (one container), plans (what annotations
                   tell of it), podstatus (how it is told)

Left out: affinity between Pods, topology spread, preemption, volumes that must be bound, CronJobs, autoscaling,
disruption budgets, node leases, ephemeral containers; a Pod whose labels leave its owner's selector is replaced but
not set free.
"""
