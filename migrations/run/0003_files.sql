CREATE TABLE `file_parts` (
	`sha256` text NOT NULL,
	`part` integer NOT NULL,
	`bytes` blob NOT NULL,
	PRIMARY KEY(`sha256`, `part`)
);
--> statement-breakpoint
CREATE TABLE `files` (
	`sha256` text PRIMARY KEY NOT NULL,
	`bytes` integer NOT NULL,
	`at` integer NOT NULL,
	`named` integer NOT NULL
);
