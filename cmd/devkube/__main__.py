from devkube.cli import main

raise SystemExit(main())
