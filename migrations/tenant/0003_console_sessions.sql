CREATE TABLE `console_sessions` (
	`hash` text PRIMARY KEY NOT NULL,
	`key_hash` text NOT NULL,
	`created_at` integer NOT NULL,
	`seen_at` integer NOT NULL
);
