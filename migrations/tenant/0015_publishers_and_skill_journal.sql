CREATE TABLE `publisher_keys` (
	`kid` text PRIMARY KEY NOT NULL,
	`x` text NOT NULL,
	`publisher` text NOT NULL,
	`pinned` integer NOT NULL,
	`at` integer NOT NULL,
	`by` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `publisher_keys_publisher` ON `publisher_keys` (`publisher`);--> statement-breakpoint
CREATE TABLE `revoked_keys` (
	`kid` text PRIMARY KEY NOT NULL,
	`publisher` text NOT NULL,
	`at` integer NOT NULL,
	`by` text NOT NULL,
	`reason` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `skill_journal` (
	`seq` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`kind` text NOT NULL,
	`publisher` text NOT NULL,
	`skill` text,
	`version` text,
	`body` text NOT NULL,
	`hash` text NOT NULL,
	`logged` integer DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE INDEX `skill_journal_skill` ON `skill_journal` (`skill`,`version`);--> statement-breakpoint
CREATE INDEX `skill_journal_publisher` ON `skill_journal` (`publisher`);--> statement-breakpoint
CREATE INDEX `skill_journal_logged` ON `skill_journal` (`logged`);--> statement-breakpoint
CREATE TABLE `skill_tools` (
	`name` text PRIMARY KEY NOT NULL,
	`skill` text NOT NULL
);
--> statement-breakpoint
DROP TABLE `publishers`;--> statement-breakpoint
DROP TABLE `skill_changes`;--> statement-breakpoint
CREATE INDEX `skills_publisher` ON `skills` (`publisher`);