"""Code that several operators share. Modules here define no operator of their own."""
