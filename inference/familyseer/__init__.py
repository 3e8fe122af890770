"""FamilySeer: families of tasks, a cost model for each family, and foresee tuning."""
