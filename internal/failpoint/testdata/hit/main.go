// Hit hits its points twice each and prints that it got to its end.
package main

import (
	"fmt"

	"github.com/deltafold/deltafold/internal/failpoint"
)

func main() {
	for range 2 {
		failpoint.Hit("a")
		failpoint.Hit("b")
	}
	fmt.Println("end")
}
