CREATE TABLE `former_secrets` (
	`seq` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`name` text NOT NULL,
	`version` integer NOT NULL,
	`sealed` text NOT NULL
);
