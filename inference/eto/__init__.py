"""ETO: reuse trees and the search of a task from its parent's program, as published."""
