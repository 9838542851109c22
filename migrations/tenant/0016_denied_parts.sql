CREATE TABLE `denied_parts` (
	`pattern` text PRIMARY KEY NOT NULL,
	`reason` text NOT NULL,
	`by` text NOT NULL,
	`at` integer NOT NULL
);
