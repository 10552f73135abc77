module github.com/deltafold/deltafold

go 1.26.0
