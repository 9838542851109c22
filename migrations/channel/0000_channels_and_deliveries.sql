CREATE TABLE `approvals` (
	`id` text PRIMARY KEY NOT NULL,
	`tenant` text NOT NULL,
	`approval` text NOT NULL,
	`ended_at` integer
);
--> statement-breakpoint
CREATE INDEX `approvals_ended` ON `approvals` (`ended_at`) WHERE "approvals"."ended_at" is not null;--> statement-breakpoint
CREATE TABLE `channels` (
	`name` text PRIMARY KEY NOT NULL,
	`spec` text NOT NULL,
	`by` text NOT NULL,
	`at` integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE `deliveries` (
	`id` text PRIMARY KEY NOT NULL,
	`approval` text NOT NULL,
	`channel` text NOT NULL,
	`recipient` text,
	`kind` text NOT NULL,
	`state` text NOT NULL,
	`tries` integer NOT NULL,
	`next_at` integer,
	`changed_at` integer NOT NULL,
	`why` text,
	`ref` text
);
--> statement-breakpoint
CREATE INDEX `deliveries_due` ON `deliveries` (`channel`,`next_at`) WHERE "deliveries"."next_at" is not null;--> statement-breakpoint
CREATE INDEX `deliveries_approval` ON `deliveries` (`approval`);--> statement-breakpoint
CREATE INDEX `deliveries_changed` ON `deliveries` (`channel`,`changed_at`);