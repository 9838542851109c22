CREATE TABLE `archives` (
	`name` text PRIMARY KEY NOT NULL,
	`notified` integer NOT NULL
);
--> statement-breakpoint
CREATE INDEX `archives_notified` ON `archives` (`notified`);--> statement-breakpoint
CREATE TABLE `holds` (
	`subject` text PRIMARY KEY NOT NULL,
	`reason` text NOT NULL,
	`by` text NOT NULL,
	`at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `retention_rules` (
	`rule` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`keep` text NOT NULL,
	`by` text NOT NULL,
	`at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `tenant_journal` (
	`seq` integer PRIMARY KEY NOT NULL,
	`at` integer NOT NULL,
	`kind` text NOT NULL,
	`body` text NOT NULL,
	`hash` text NOT NULL,
	`logged` integer DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE INDEX `tenant_journal_logged` ON `tenant_journal` (`logged`);