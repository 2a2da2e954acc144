from warmlog.cli import main

raise SystemExit(main())
