CREATE TABLE `asks` (
	`agent` text PRIMARY KEY NOT NULL,
	`n` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `waits` (
	`channel` text NOT NULL,
	`outcome` text NOT NULL,
	`bucket` integer NOT NULL,
	`n` integer NOT NULL,
	`total_ms` integer NOT NULL,
	PRIMARY KEY(`channel`, `outcome`, `bucket`)
);
