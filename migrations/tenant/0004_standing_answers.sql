CREATE TABLE `standing` (
	`id` text PRIMARY KEY NOT NULL,
	`until` integer NOT NULL,
	`standing` text NOT NULL
);
