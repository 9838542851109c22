CREATE TABLE `upstream_tools` (
	`name` text PRIMARY KEY NOT NULL,
	`upstream` text NOT NULL,
	`upstream_name` text NOT NULL,
	`pinned` text,
	`pinned_digest` text,
	`seen` text,
	`seen_digest` text,
	`quarantined` integer NOT NULL,
	`faults` text NOT NULL,
	`terms` text,
	`accepted_by` text,
	`accepted_at` integer
);
--> statement-breakpoint
CREATE INDEX `upstream_tools_upstream` ON `upstream_tools` (`upstream`);--> statement-breakpoint
CREATE TABLE `upstreams` (
	`name` text PRIMARY KEY NOT NULL,
	`spec` text NOT NULL,
	`revision` integer NOT NULL,
	`by` text NOT NULL,
	`at` integer NOT NULL,
	`looked_at` integer,
	`era` text,
	`fault` text,
	`refused` text NOT NULL
);
