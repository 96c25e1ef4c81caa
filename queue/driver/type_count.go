package driver

// TypeCount counts the jobs of one type in one queue that have not ended.
type TypeCount struct {
	Queue string `json:"queue"`
	Type  string `json:"type"`
	// Ready, Scheduled, Blocked and Parked count the jobs that have not started.
	Ready     int `json:"ready,omitempty"`
	Scheduled int `json:"scheduled,omitempty"`
	Blocked   int `json:"blocked,omitempty"`
	Parked    int `json:"parked,omitempty"`
	// Running counts the running jobs, and Retrying the jobs that await their next attempt.
	Running  int `json:"running,omitempty"`
	Retrying int `json:"retrying,omitempty"`
}

// Total returns the number of all jobs that are counted.
func (c *TypeCount) Total() int {
	return c.Ready + c.Scheduled + c.Blocked + c.Parked + c.Running + c.Retrying
}

// Add adds the numbers of other jobs.
func (c *TypeCount) Add(other *TypeCount) {
	c.Ready += other.Ready
	c.Scheduled += other.Scheduled
	c.Blocked += other.Blocked
	c.Parked += other.Parked
	c.Running += other.Running
	c.Retrying += other.Retrying
}
