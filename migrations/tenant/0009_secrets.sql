CREATE TABLE `secrets` (
	`name` text PRIMARY KEY NOT NULL,
	`version` integer NOT NULL,
	`sealed` text NOT NULL,
	`tools` text NOT NULL,
	`by` text NOT NULL,
	`at` integer NOT NULL
);
