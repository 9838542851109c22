CREATE TABLE `agents` (
	`name` text PRIMARY KEY NOT NULL,
	`key_hash` text NOT NULL,
	`spec` text NOT NULL,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `enrolments` (
	`id` text PRIMARY KEY NOT NULL,
	`hash` text NOT NULL,
	`pool` text NOT NULL,
	`expires_at` integer NOT NULL,
	`used_at` integer
);
--> statement-breakpoint
CREATE TABLE `inbox` (
	`id` text PRIMARY KEY NOT NULL,
	`pending` integer NOT NULL,
	`requested_at` integer NOT NULL,
	`approval` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `inbox_pending` ON `inbox` (`pending`,`requested_at`);--> statement-breakpoint
CREATE TABLE `meta` (
	`id` integer PRIMARY KEY NOT NULL,
	`version` integer NOT NULL,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `operators` (
	`name` text PRIMARY KEY NOT NULL,
	`key_hash` text NOT NULL,
	`spec` text NOT NULL,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `policy_sets` (
	`version` integer PRIMARY KEY NOT NULL,
	`digest` text NOT NULL,
	`policies` text NOT NULL,
	`note` text NOT NULL,
	`author` text NOT NULL,
	`active` integer NOT NULL,
	`created_at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `tools` (
	`name` text NOT NULL,
	`version` integer NOT NULL,
	`digest` text NOT NULL,
	`spec` text NOT NULL,
	`active` integer NOT NULL,
	`created_at` integer NOT NULL,
	`created_by` text NOT NULL,
	PRIMARY KEY(`name`, `version`)
);
--> statement-breakpoint
CREATE INDEX `tools_active` ON `tools` (`active`);--> statement-breakpoint
CREATE TABLE `workers` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`pool` text NOT NULL,
	`kid` text NOT NULL,
	`x` text NOT NULL,
	`tiers` text NOT NULL,
	`status` text NOT NULL,
	`enrolled_at` integer NOT NULL
);
