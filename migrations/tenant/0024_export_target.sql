CREATE TABLE `export_target` (
	`id` integer PRIMARY KEY NOT NULL,
	`shown` text NOT NULL,
	`sealed` text NOT NULL
);
